// SPDX-License-Identifier: Apache-2.0
// Finds stop strings in a text that arrives in pieces. Text that may be the beginning of a stop
// string is held back until later text decides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// Stop strings, each with its failure function (Knuth, Morris and Pratt, 1977). Made once per
// request, shared by its choices; immutable.
class StopStrings {
 public:
  // Empty and repeated strings are dropped.
  explicit StopStrings(std::vector<std::string> stops);

  size_t size() const { return patterns_.size(); }
  size_t length(size_t index) const { return patterns_[index].text.size(); }
  // The matched length of string `index` after one more byte.
  size_t advance(size_t index, size_t matched, char byte) const;

 private:
  struct Pattern {
    std::string text;
    std::vector<uint32_t> failure;  // By prefix: the length of its longest border.
  };

  std::vector<Pattern> patterns_;
};

// The result does not depend on how the text is cut into pieces: the text ends before the stop
// string that is complete first; if several are complete at the same byte, before the longest. The
// results of push() and finish(), joined, are exactly the text up to there. Each byte costs O(1)
// per stop string, even in repetitive text. Used by one thread at a time.
class StopMatcher {
 public:
  // `stops` outlive the matcher.
  explicit StopMatcher(const StopStrings* stops) : stops_(*stops), matched_(stops->size()) {}

  // Takes more text and returns what is now safe to show. After stopped() all text is ignored.
  std::string push(std::string_view text);
  // The text is over; returns the held-back text.
  std::string finish();
  bool stopped() const { return !found_.empty(); }
  // The stop string that ended the text; empty before.
  const std::string& found() const { return found_; }

 private:
  const StopStrings& stops_;
  std::vector<size_t> matched_;  // By stop string: the length of its match at the text's end.
  std::string withheld_;
  std::string found_;
};

}  // namespace lockstep

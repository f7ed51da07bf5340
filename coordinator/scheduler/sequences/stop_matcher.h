// SPDX-License-Identifier: Apache-2.0
// Stop strings in a text that arrives in pieces: text that may be the beginning of a stop string is
// held back until it is clear that it isn't.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// Each stop string with its failure function (Knuth, Morris and Pratt, 1977). Made once per
// request, shared by its choices; immutable.
class StopStrings {
 public:
  // Empty strings and repeated ones are left out.
  explicit StopStrings(std::vector<std::string> stops);

  size_t size() const { return patterns_.size(); }
  size_t length(size_t index) const { return patterns_[index].text.size(); }
  // How much of string `index` the text's end matches, one byte later.
  size_t advance(size_t index, size_t matched, char byte) const;

 private:
  struct Pattern {
    std::string text;
    std::vector<uint32_t> failure;  // Of each prefix: its longest border.
  };

  std::vector<Pattern> patterns_;
};

// How the text is cut into pieces decides nothing: the stop string that is complete first ends the
// text, of several complete at the same byte the longest one; the text ends before it. What push()
// and finish() return, joined, is exactly the text up to there. Each byte costs O(1) per stop
// string, however the text repeats itself. Used by one thread at a time.
class StopMatcher {
 public:
  // `stops` outlive the matcher.
  explicit StopMatcher(const StopStrings* stops) : stops_(*stops), matched_(stops->size()) {}

  // Takes more text and returns what became safe to show. Once stopped() all more text is ignored.
  std::string push(std::string_view text);
  // The text is over: what was held back.
  std::string finish();
  bool stopped() const { return !found_.empty(); }
  // The stop string that ended the text; empty before.
  const std::string& found() const { return found_; }

 private:
  const StopStrings& stops_;
  std::vector<size_t> matched_;  // By stop string: how much of it the text's end matches.
  std::string held_;
  std::string found_;
};

}  // namespace lockstep

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

// How the text is cut into pieces decides nothing: the stop string that is complete first ends the
// text, of several complete at the same byte the longest one; the text ends before it. What push()
// and finish() return, joined, is exactly the text up to there. Used by the engine's thread alone.
class StopMatcher {
 public:
  // Empty strings are left out.
  explicit StopMatcher(const std::vector<std::string>& stops);

  // Takes more text and returns what became safe to show. Once stopped() all more text is ignored.
  std::string push(std::string_view text);
  // The text is over: what was held back.
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  // One stop string with its failure function and how much of it the text's end matches (Knuth,
  // Morris and Pratt, 1977): each byte costs O(1) a stop string, however the text repeats itself.
  struct Pattern {
    std::string text;
    std::vector<uint32_t> failure;  // Of each prefix: its longest border.
    size_t matched = 0;
    void push(char byte);
  };

  std::vector<Pattern> patterns_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace lockstep

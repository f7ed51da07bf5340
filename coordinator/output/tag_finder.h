// SPDX-License-Identifier: Apache-2.0
// Finds tags in a text that arrives byte by byte.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// No tag is inside another one, so at most one tag ends with a byte. The time is the bytes pushed
// times the bytes of the tags.
class TagFinder {
 public:
  // Empty tags are ignored. `suffixes`: a tag that ends with '>' is also found with ":" and a word
  // before the '>' (<tool_calls:opensource>).
  explicit TagFinder(std::vector<std::string_view> tags, bool suffixes = false);

  // Appends to `text` the bytes that can no longer be part of a tag. If a tag ends with this byte,
  // returns the tag as it is in the list; the bytes before the tag are in `text` by then.
  std::optional<std::string_view> push(char c, std::string* text);

  // The bytes that may still become a tag.
  const std::string& withheld() const { return withheld_; }
  std::string take_withheld();

 private:
  enum class Match { kNone, kPart, kWhole };
  Match match(std::string_view tag) const;

  std::vector<std::string_view> tags_;
  bool suffixes_ = false;
  std::string withheld_;
};

}  // namespace lockstep

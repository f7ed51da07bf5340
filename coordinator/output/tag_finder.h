// SPDX-License-Identifier: Apache-2.0
// Finds tags in a text that arrives byte by byte.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// No tag is inside another one, so the first match is the only one. The time is the bytes pushed
// times the bytes of the tags.
class TagFinder {
 public:
  // Empty tags are ignored. `suffixes`: a tag that ends with '>' may have a word there
  // (<tool_calls:opensource>).
  explicit TagFinder(std::vector<std::string_view> tags, bool suffixes = false);

  // Appends the bytes that can no longer become a tag to `text`. If a tag ends with this byte,
  // returns it as it is in the list, after the earlier bytes were appended to `text`.
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

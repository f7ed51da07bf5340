// SPDX-License-Identifier: Apache-2.0
// Finds tags in a text that comes byte by byte.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// No tag lies within another one, so that the first match is the only one. Takes time by the bytes
// pushed times the bytes of the tags.
class TagFinder {
 public:
  // Empty tags are left out. `suffixes`: a tag that ends with '>' may have a word there
  // (<tool_calls:opensource>).
  explicit TagFinder(std::vector<std::string_view> tags, bool suffixes = false);

  // Appends what cannot become a tag any more to `text`. A tag that ends with this byte is
  // returned as it is in the list; what was before it is in `text` by then.
  std::optional<std::string_view> push(char c, std::string* text);

  // The bytes that may still become a tag.
  const std::string& held() const { return held_; }
  std::string take_held();

 private:
  enum class Match { kNone, kPart, kWhole };
  Match match(std::string_view tag) const;

  std::vector<std::string_view> tags_;
  bool suffixes_ = false;
  std::string held_;
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "coordinator/output/tag_finder.h"

#include <algorithm>
#include <utility>

namespace lockstep {
namespace {

constexpr size_t kMaxSuffix = 32;

bool is_of_suffix(char c) {
  return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') || c == '_' ||
         c == '-';
}

}  // namespace

TagFinder::TagFinder(std::vector<std::string_view> tags, bool suffixes)
    : tags_(std::move(tags)), suffixes_(suffixes) {
  std::erase(tags_, std::string_view());
}

TagFinder::Match TagFinder::match(std::string_view tag) const {
  if (tag.starts_with(withheld_))
    return withheld_.size() == tag.size() ? Match::kWhole : Match::kPart;
  if (!suffixes_ || !tag.ends_with('>')) return Match::kNone;
  const std::string_view name = tag.substr(0, tag.size() - 1);
  if (!withheld_.starts_with(name) || withheld_[name.size()] != ':') return Match::kNone;
  const std::string_view suffix = std::string_view(withheld_).substr(name.size() + 1);
  if (suffix.size() > kMaxSuffix) return Match::kNone;
  const bool is_whole = suffix.ends_with('>');
  if (!std::ranges::all_of(suffix.substr(0, suffix.size() - (is_whole ? 1 : 0)), is_of_suffix)) {
    return Match::kNone;
  }
  return is_whole ? Match::kWhole : Match::kPart;
}

std::optional<std::string_view> TagFinder::push(char c, std::string* text) {
  withheld_ += c;
  while (!withheld_.empty()) {
    bool may_be_tag = false;
    for (const std::string_view tag : tags_) {
      const Match found = match(tag);
      if (found == Match::kWhole) {
        withheld_.clear();
        return tag;
      }
      may_be_tag |= found == Match::kPart;
    }
    if (may_be_tag) break;
    *text += withheld_[0];
    withheld_.erase(0, 1);
  }
  return std::nullopt;
}

std::string TagFinder::take_withheld() { return std::exchange(withheld_, {}); }

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// The texts are in a deque, which does not move them: the map's keys point at them.
#include "coordinator/text/tokenizer/vocabulary.h"

#include <utility>

namespace lockstep {

absl::Status Vocabulary::add(std::string text, int64_t id) {
  if (id < 0 || id >= kMaxVocabulary) {
    return invalid_argument("token \"{:.60}\": its id must be in 0 to {}, found {}", text,
                            kMaxVocabulary - 1, id);
  }
  const auto index = static_cast<size_t>(id);
  if (index < texts_.size() && texts_[index] != nullptr) {
    return invalid_argument("tokens \"{:.60}\" and \"{:.60}\" have the same id {}", *texts_[index],
                            text, id);
  }
  if (const auto known = find(text); known.has_value()) {
    return invalid_argument("token \"{:.60}\" has two ids, {} and {}", text, *known, id);
  }
  if (index >= texts_.size()) texts_.resize(index + 1, nullptr);
  storage_.push_back(std::move(text));
  texts_[index] = &storage_.back();
  ids_.emplace(storage_.back(), static_cast<int32_t>(id));
  return absl::OkStatus();
}

absl::Status Vocabulary::check_dense() const {
  if (size() <= 2 * static_cast<int64_t>(count()) + 4096) return absl::OkStatus();
  return invalid_argument("{} tokens have ids up to {}: too many ids have no token", count(),
                          size() - 1);
}

std::optional<int32_t> Vocabulary::find(std::string_view text) const {
  const auto found = ids_.find(text);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

const std::string* Vocabulary::text(int32_t id) const {
  return id >= 0 && id < size() ? texts_[static_cast<size_t>(id)] : nullptr;
}

}  // namespace lockstep

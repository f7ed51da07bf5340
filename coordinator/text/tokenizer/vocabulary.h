// SPDX-License-Identifier: Apache-2.0
// Token texts by id and ids by text, one to one.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/text_map.h"

namespace lockstep {

inline constexpr int32_t kMaxVocabulary = 1'000'000;

// Filled by one thread, then read by any. Texts do not move during its lifetime.
class Vocabulary {
 public:
  Vocabulary() = default;
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  // Errors: an id that is negative or not below kMaxVocabulary; a text or an id that is already
  // present.
  absl::Status add(std::string text, int64_t id);

  // An error that gives the largest id, if the ids have far more gaps than tokens.
  absl::Status check_dense() const;

  std::optional<int32_t> find(std::string_view text) const;
  // Null for an unused id.
  const std::string* text(int32_t id) const;
  // The largest id plus one.
  int32_t size() const { return static_cast<int32_t>(texts_.size()); }
  int32_t count() const { return static_cast<int32_t>(ids_.size()); }

 private:
  std::deque<std::string> storage_;
  std::vector<const std::string*> texts_;
  TextMap<std::string_view, int32_t> ids_;
};

}  // namespace lockstep

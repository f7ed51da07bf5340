// SPDX-License-Identifier: Apache-2.0
// The "post_processor" of tokenizer.json: the tokens that a model needs before and after a prompt.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace lockstep {

// Immutable once made, for any thread.
class PostProcessor {
 public:
  // null gives one that adds nothing. `vocabulary_size` limits the ids.
  static absl::StatusOr<PostProcessor> from_json(const Json& spec, int32_t vocabulary_size);

  void add_special(std::vector<int32_t>* ids) const;

  // The token that is added first, and last.
  std::optional<int32_t> first() const;
  std::optional<int32_t> last() const;

 private:
  absl::Status add(const Json& spec, int32_t vocabulary_size);
  absl::Status add_pair(const Json& spec, const std::string& type, int32_t vocabulary_size);
  absl::Status add_template(const Json& spec, int32_t vocabulary_size);

  std::vector<int32_t> before_;
  std::vector<int32_t> after_;
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// What a model's generation_config.json says of sampling: defaults of requests that say nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep {

// A field that is missing or null is unset. Keys that mean nothing here are not looked at.
struct GenerationConfig {
  std::optional<float> temperature;  // 0 where do_sample is false.
  std::optional<int64_t> top_k;      // 0: all.
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  std::optional<int64_t> max_new_tokens;
  std::vector<int64_t> bos_token_ids;
  std::vector<int64_t> eos_token_ids;
};

// Reads folder/generation_config.json; all unset where there is none. A field of another type or
// out of its range is kInvalidArgument, one line that names the file and the key.
absl::StatusOr<GenerationConfig> read_generation_config(const std::filesystem::path& folder);

}  // namespace lockstep

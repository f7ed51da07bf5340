// SPDX-License-Identifier: Apache-2.0
// What a model's generation_config.json says of sampling: defaults of requests that say nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
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
  std::optional<float> presence_penalty;
  std::optional<float> frequency_penalty;
  std::optional<int64_t> max_new_tokens;
  std::vector<int64_t> bos_token_ids;
  std::vector<int64_t> eos_token_ids;
};

// Reads folder/generation_config.json; all unset where there is none. A field of another type or
// out of its range is kInvalidArgument, one line that names the file and the key.
absl::StatusOr<GenerationConfig> read_generation_config(const std::filesystem::path& folder);

// Puts the members of a JSON object in place of the config's: temperature, top_k, top_p, min_p and
// the three penalties. kInvalidArgument names another key, and a value out of its range.
absl::Status add_sampling_defaults(const std::string& json, GenerationConfig* config);

}  // namespace lockstep

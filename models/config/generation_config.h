// SPDX-License-Identifier: Apache-2.0
// A model's sampling defaults, from generation_config.json, for requests that do not set them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep {

// A field that is missing or null is unset. Other keys are ignored.
struct GenerationConfig {
  std::optional<float> temperature;  // 0 if do_sample is false.
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

// Reads folder/generation_config.json; all fields are unset if there is none. A field of another
// type or out of its range is kInvalidArgument, one line that names the file and the key.
absl::StatusOr<GenerationConfig> read_generation_config(const std::filesystem::path& folder);

// Replaces the config's values by the members of a JSON object: temperature, top_k, top_p, min_p
// and the three penalties. kInvalidArgument names any other key, or a value out of range.
absl::Status add_sampling_defaults(const std::string& json, GenerationConfig* config);

}  // namespace lockstep

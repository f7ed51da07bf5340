// SPDX-License-Identifier: Apache-2.0
// From a model's folder to its graph.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/config.h"
#include "models/graph/graph.h"

namespace lockstep {

struct ModelDescription {
  Config config;
  Graph graph;
};

// Reads folder/config.json. kInvalidArgument: one line that names the file and the key.
// `ignore_config_keys`: keys that the user declares irrelevant. `max_context_override`: 0, or the
// max positions of a sequence; more than the model supports (with its rotary scaling) is an error.
absl::StatusOr<ModelDescription> describe_model(const std::filesystem::path& folder,
                                                const std::vector<std::string>& ignore_config_keys,
                                                int64_t max_context_override);

}  // namespace lockstep

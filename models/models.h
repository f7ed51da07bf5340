// SPDX-License-Identifier: Apache-2.0
// Every architecture that the engine knows, and the way from a model's folder to its graph.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "models/config.h"
#include "models/graph.h"

namespace lockstep {

struct Architecture {
  std::string_view name;  // As config.json's `architectures` names it.
  void (*build)(Graph& graph, const Config& config);
  Family family;
};
std::span<const Architecture> architectures();

struct ModelDescription {
  Config config;
  Graph graph;
};

// Reads folder/config.json. kInvalidArgument: one line that names the file and the key.
// `ignore_config_keys`: keys that the user says decide nothing. `max_context_override`: 0, or the
// positions that a sequence may have.
absl::StatusOr<ModelDescription> describe_model(const std::filesystem::path& folder,
                                                const std::vector<std::string>& ignore_config_keys,
                                                int64_t max_context_override);

}  // namespace lockstep

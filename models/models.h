// SPDX-License-Identifier: Apache-2.0
// Every architecture that the engine knows, and the way from a model's folder to its graph.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/architecture.h"

namespace lockstep {

// Of all families.
Architectures architectures();

// Whose rules a config.json is read by: of the architecture that it names. kInvalidArgument: one
// line that names the key.
absl::StatusOr<const Architecture*> find_architecture(const Json& json);

// The keys that an architecture reads of a config.json, in our names; those of all architectures.
std::set<std::string, std::less<>> keys_of(const Architecture& architecture);
const std::set<std::string, std::less<>>& keys_of_all();

// What a family's function makes of a config.json, and what is read of any.
struct ReadModel {
  Decoder decoder;
  Config config;
};
absl::StatusOr<ReadModel> read_model(const Architecture& architecture, Json json, KeySource source,
                                     int64_t max_context_override);

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

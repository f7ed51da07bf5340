// SPDX-License-Identifier: Apache-2.0
// Every supported architecture, and how its config.json is read.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "models/blocks/language_model.h"
#include "models/config.h"
#include "models/config/keys.h"

namespace lockstep {

struct Architecture {
  std::string_view name;  // In config.json's `architectures`.
  // Reads a config.json from top to bottom and returns the model's parts.
  LanguageModel (*read)(Keys& keys);
  // Whether this row fits a config.json, if several rows have the same name. Null: the row fits if
  // no row before it does.
  bool (*is)(const Json& json) = nullptr;
};

// The rows of one family or of all; they live as long as the program.
using Architectures = std::span<const Architecture>;

// The rows of all families.
Architectures architectures();

// The row that a config.json names and fits. kInvalidArgument: one line that names the key.
absl::StatusOr<const Architecture*> find_architecture(const Json& json);

// The keys that one architecture, or any of them, reads from a config.json, in our names.
using KeyNames = std::set<std::string, std::less<>>;
KeyNames keys_of(const Architecture& architecture);
const KeyNames& keys_of_all();

// The result of read_model(): the model, and the facts that other code needs.
struct ReadModel {
  LanguageModel model;
  Config config;
};
absl::StatusOr<ReadModel> read_model(const Architecture& architecture, Json json, KeySource source,
                                     int64_t max_context_override);

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// Every architecture that the engine knows, and how its config.json is read.
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
  std::string_view name;  // As config.json's `architectures` names it.
  // Reads a config.json from top to bottom and says what the model is made of.
  LanguageModel (*read)(Keys& keys);
  // Where several rows have one name: whether a config.json is of this one. Null: it is, if of none
  // before.
  bool (*is)(const Json& json) = nullptr;
};

// Of one family, or of all; they live as long as the program.
using Architectures = std::span<const Architecture>;

// Those of all families.
Architectures architectures();

// The architecture that a config.json names, by whose rules it is read. kInvalidArgument: one line
// that names the key.
absl::StatusOr<const Architecture*> find_architecture(const Json& json);

// The keys that an architecture reads of a config.json, in our names; those of all architectures.
using KeyNames = std::set<std::string, std::less<>>;
KeyNames keys_of(const Architecture& architecture);
const KeyNames& keys_of_all();

// An architecture's reading of a config.json, and what is read of any.
struct ReadModel {
  LanguageModel model;
  Config config;
};
absl::StatusOr<ReadModel> read_model(const Architecture& architecture, Json json, KeySource source,
                                     int64_t max_context_override);

}  // namespace lockstep

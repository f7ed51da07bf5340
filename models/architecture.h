// SPDX-License-Identifier: Apache-2.0
// What the engine knows of an architecture.
#pragma once

#include <span>
#include <string_view>

#include "models/config.h"
#include "models/graph.h"

namespace lockstep {

struct Architecture {
  std::string_view name;  // As config.json's `architectures` names it.
  void (*build)(Graph& graph, const Config& config);
  Family family;
  // Where several rows have one name: whether a config.json is of this one. Null: it is, if of none
  // before.
  bool (*is)(const Json& json) = nullptr;
};

// Of one family, or of all; they live as long as the program.
using Architectures = std::span<const Architecture>;

}  // namespace lockstep

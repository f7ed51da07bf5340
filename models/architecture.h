// SPDX-License-Identifier: Apache-2.0
// What the engine knows of an architecture.
#pragma once

#include <span>
#include <string_view>

#include "models/blocks/decoder.h"
#include "models/config.h"
#include "models/config/keys.h"
#include "models/graph.h"

namespace lockstep {

struct Architecture {
  using Is = bool (*)(const Json& json);
  std::string_view name;  // As config.json's `architectures` names it.
  // Reads a config.json and says what the model is made of.
  Decoder (*read)(Keys& keys) = nullptr;
  void (*build)(Graph& graph, const Config& config) = nullptr;
  Family family = {};
  // Where several rows have one name: whether a config.json is of this one. Null: it is, if of none
  // before.
  Is is = nullptr;

  constexpr Architecture(std::string_view own_name, Decoder (*own_read)(Keys&), Is own_is = nullptr)
      : name(own_name), read(own_read), is(own_is) {}
  // Families that are read into a Config yet.
  constexpr Architecture(std::string_view own_name, void (*own_build)(Graph&, const Config&),
                         const Family& own_family, Is own_is = nullptr)
      : name(own_name), build(own_build), family(own_family), is(own_is) {}
};

// Of one family, or of all; they live as long as the program.
using Architectures = std::span<const Architecture>;

}  // namespace lockstep

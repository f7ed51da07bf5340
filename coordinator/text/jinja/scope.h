// SPDX-License-Identifier: Apache-2.0
// Variables by name. Scopes see those of the scopes around them; setting a variable never changes
// an outer one.
#pragma once

#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "coordinator/text/jinja/syntax.h"
#include "coordinator/text/jinja/value.h"

namespace lockstep::jinja {

struct NameHash {
  using is_transparent = void;
  size_t operator()(std::string_view name) const { return KeyHash()(name); }
};

struct Scope {
  Scope* parent = nullptr;
  // A macro was made in here, or further inside, and may look at the variables later.
  bool captured = false;
  absl::flat_hash_map<std::string_view, Value, NameHash, std::equal_to<>> variables;

  // Null where no scope has it.
  const Value* find(std::string_view name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent) {
      const auto found = scope->variables.find(name);
      if (found != scope->variables.end()) return &found->second;
    }
    return nullptr;
  }
  void capture() {
    for (Scope* scope = this; scope != nullptr && !scope->captured; scope = scope->parent) {
      scope->captured = true;
    }
  }
};

struct Namespace {
  Dict attributes;
};

// Items that are given in turn.
struct Cycler {
  std::vector<Value> items;
  size_t place = 0;  // The next item's.
};

// A macro, or the body of a call block, with the scope in which it was made.
struct Macro {
  const MacroSyntax* syntax = nullptr;
  Scope* scope = nullptr;
};

}  // namespace lockstep::jinja

// SPDX-License-Identifier: Apache-2.0
// The argument `attribute` of filters: "name", "a.b.0" or an index; which item of an item to look
// at.
#pragma once

#include <optional>
#include <vector>

#include "coordinator/text/jinja/builtin.h"

namespace lockstep::jinja {

class AttributePath {
 public:
  // The item itself.
  AttributePath() = default;
  static AttributePath of(Runtime& runtime, const Value& attribute);
  // "a,b" is two of them.
  static std::vector<AttributePath> several(Runtime& runtime, const Value& attribute);

  // What is undefined on the way becomes `fallback`, unless that is null.
  Result get(Runtime& runtime, const Value& item, const Value* fallback = nullptr) const;

 private:
  std::vector<Value> keys_;
};

}  // namespace lockstep::jinja

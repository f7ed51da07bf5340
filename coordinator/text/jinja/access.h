// SPDX-License-Identifier: Apache-2.0
// Looks into values: items, attributes, slices, and what a loop walks.
#pragma once

#include <string_view>
#include <vector>

#include "coordinator/text/jinja/runtime.h"

namespace lockstep::jinja {

absl::StatusOr<int64_t> length(const Value& value);

// What a for loop over the value gives; the items that an iterator has left.
absl::StatusOr<std::vector<Value>> items_of(Runtime& runtime, const Value& value);

// value[key] and value.name, as Jinja looks them up: items and methods. What is not there is
// undefined; an error only where the value is itself undefined.
Result item(Runtime& runtime, const Value& value, const Value& key);
Result attribute(Runtime& runtime, const Value& value, std::string_view name);
// value[start:stop:step]; null where left out.
Result slice(Runtime& runtime, const Value& value, const Value* start, const Value* stop,
             const Value* step);

}  // namespace lockstep::jinja

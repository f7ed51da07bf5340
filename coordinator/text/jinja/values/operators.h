// SPDX-License-Identifier: Apache-2.0
// Python's operators on values, and access to items, attributes and slices. The budget is charged
// for slow operations, and fails where Python raises an error.
#pragma once

#include <string_view>
#include <vector>

#include "coordinator/text/jinja/values/runtime.h"

namespace lockstep::jinja {

bool truth(const Value& value);
bool equal(Budget& budget, const Value& a, const Value& b);
bool less(Budget& budget, const Value& a, const Value& b);
bool compare(Budget& budget, Operator op, const Value& a, const Value& b);

Value arithmetic(Runtime& runtime, Operator op, const Value& a, const Value& b);
Value negative(Budget& budget, const Value& value);
Value positive(Budget& budget, const Value& value);

int64_t length(Budget& budget, const Value& value);
// The number of items of Python's range(start, stop, step). The step must not be 0.
uint64_t range_length(int64_t start, int64_t stop, int64_t step);

// The items of a for loop over the value; for an iterator, those that are left.
std::vector<Value> items_of(Runtime& runtime, const Value& value);

// value[key] and value.name, as in Jinja: items and methods. A missing member is an undefined
// value. The access is an error only if `value` itself is undefined.
Value item(Runtime& runtime, const Value& value, const Value& key);
Value attribute(Runtime& runtime, const Value& value, std::string_view name);
// value[start:stop:step]; a part that is left out is null.
Value slice(Runtime& runtime, const Value& value, const Value* start, const Value* stop,
            const Value* step);

// The argument `attribute` of filters: "name", "a.b.0" or an index. It selects the part of each
// item that the filter uses.
class AttributePath {
 public:
  AttributePath() = default;  // Selects the item itself, as a null or none `attribute` does.
  AttributePath(Runtime& runtime, const Value* attribute);
  // "a,b" gives two paths.
  static std::vector<AttributePath> several(Runtime& runtime, const Value& attribute);

  // If a value on the path is undefined, `fallback` takes its place, unless that is null.
  Value get(Runtime& runtime, const Value& item, const Value* fallback = nullptr) const;

 private:
  std::vector<Value> keys_;
};

}  // namespace lockstep::jinja

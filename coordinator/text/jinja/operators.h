// SPDX-License-Identifier: Apache-2.0
// Python's operators on values. What takes time is charged to the budget.
#pragma once

#include <string_view>

#include "coordinator/text/jinja/runtime.h"

namespace lockstep::jinja {

bool truth(const Value& value);
bool equal(Budget* budget, const Value& a, const Value& b);
// An error where Python has no order of the two.
absl::StatusOr<bool> less(Budget* budget, const Value& a, const Value& b);
absl::StatusOr<bool> compare(Budget* budget, Operator op, const Value& a, const Value& b);
absl::StatusOr<bool> contains(Budget* budget, const Value& container, const Value& item);

Result arithmetic(Runtime& runtime, Operator op, const Value& a, const Value& b);
Result negative(const Value& value);
Result positive(const Value& value);

// "'x' is undefined", as an error.
absl::Status undefined_error(const Value& value);

}  // namespace lockstep::jinja

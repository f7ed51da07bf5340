// SPDX-License-Identifier: Apache-2.0
// Rules for keys of config.json that do not affect the computation here, each with its reason. They
// apply to keys that the family does not read.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "base/json.h"

namespace lockstep {

// Whether the key matches the pattern, in which a * is any text.
bool matches_key(std::string_view pattern, std::string_view key);

// Whether a rule says that the key has no effect with this value. kInvalidArgument: one line that
// names a key whose value changes the computation.
absl::StatusOr<bool> is_harmless(std::string_view key, const Json& value);

}  // namespace lockstep

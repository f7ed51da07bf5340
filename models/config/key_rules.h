// SPDX-License-Identifier: Apache-2.0
// Keys of config.json that decide nothing of what is computed here, by rule, each with its reason.
// What a family reads is asked before: a rule is for the rest.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "base/json.h"

namespace lockstep {

// Whether the key is of the pattern, in which a * is any text.
bool matches_key(std::string_view pattern, std::string_view key);

// Whether a rule says that the key decides nothing with this value. kInvalidArgument: one line that
// names a key whose value says that something else is computed.
absl::StatusOr<bool> is_harmless(std::string_view key, const Json& value);

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// Names of sizes in config.json, compared by their words: "num_local_experts" may be another
// spelling of "num_experts", and "n_kv_heads" of "num_key_value_heads".
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/json.h"

namespace lockstep {

// An error if a key that the user ignores may be another spelling of a size that the family reads
// and the config lacks. Without this check, a default would replace that size. The keys of `json`
// are our names.
absl::Status check_ignored_size(std::string_view key, const Json& value, const Json& json,
                                const std::set<std::string, std::less<>>& read);
}  // namespace lockstep

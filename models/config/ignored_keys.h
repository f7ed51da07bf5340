// SPDX-License-Identifier: Apache-2.0
// Keys of config.json that the user declares irrelevant (--ignore-config).
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"

namespace lockstep {

// Removes keys and returns them by path: "key", or "object.key" inside an object. A member of the
// text part's object (kTextObjects) may be given as "key" and is always returned so. Names may
// contain dots. A missing key is an error.
absl::StatusOr<Json> ignore_keys(Json& json, const std::vector<std::string>& keys);

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// Keys of config.json that the user says decide nothing (--ignore-config).
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"

namespace lockstep {

// Takes keys away, and returns them by path: "key", "object.key" for one within an object; those of
// a text part's object may be and are returned by "key". Names may have dots in them. One that is
// not there is an error.
absl::StatusOr<Json> ignore_keys(Json& json, const std::vector<std::string>& keys);

}  // namespace lockstep

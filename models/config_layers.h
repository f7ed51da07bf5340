// SPDX-License-Identifier: Apache-2.0
// What a config.json says of single layers: which turn q and k, which have a window. For
// models/config.cc alone.
#pragma once

#include "absl/status/status.h"
#include "base/json.h"
#include "models/config.h"

namespace lockstep {

// Fills Config::turns and windows. Errors name the key.
absl::Status read_layers(const Json& json, const Family& family, Config& config);

}  // namespace lockstep

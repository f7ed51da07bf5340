// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/config.h"
#include "models/graph.h"

namespace lockstep {

// Refuses what would compute wrong numbers; json is config.json.
absl::Status check_cohere(const Json& json);

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "base/json.h"
#include "models/config.h"
#include "models/graph.h"

namespace lockstep {

void build_baichuan(Graph& graph, const Config& config);

// Refuses the models that share Baichuan-7B's architecture names and compute something else.
absl::Status check_baichuan(const Json& json);

}  // namespace lockstep

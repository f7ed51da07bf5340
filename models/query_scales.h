// SPDX-License-Identifier: Apache-2.0
// How queries are scaled by their position, as a config.json says it. For models/config.cc alone.
#pragma once

#include "absl/status/statusor.h"
#include "base/json.h"
#include "models/config.h"

namespace lockstep {

// What says so. It is not rotary scaling, though it may stand there.
struct QueryScaling {
  double beta = 0;
  int64_t length = 0;  // 0: they are not.
  int64_t offset = 0;
};

// llama_4_scaling_beta of rope_parameters, which it takes out there.
absl::StatusOr<QueryScaling> take_query_scaling(Json& rope);

// attn_temperature_tuning with floor_scale and attn_scale.
absl::StatusOr<QueryScaling> read_temperature(const Json& json);

// 1 + beta * log(1 + floor((position + offset) / length)) for every position up to `positions`.
absl::Status set_query_scales(const QueryScaling& scaling, double positions, Config& config);

}  // namespace lockstep

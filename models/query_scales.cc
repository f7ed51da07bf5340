// SPDX-License-Identifier: Apache-2.0
#include "models/query_scales.h"

#include <cmath>

#include "base/math.h"
#include "models/config_keys.h"

namespace lockstep {

absl::StatusOr<QueryScaling> take_query_scaling(Json& rope) {
  QueryScaling scaling;
  if (!rope.is_object()) return scaling;
  const auto in_rope = [](const absl::Status& status) {
    return invalid_argument("rope_parameters.{}", message_of(status));
  };
  const absl::StatusOr<double> beta = get_double(rope, "llama_4_scaling_beta");
  if (!beta.ok()) return in_rope(beta.status());
  if (!(*beta >= 0 && *beta <= 1000)) {
    return invalid_argument(
        "rope_parameters.llama_4_scaling_beta: must be a number from 0 to 1000, found {}", *beta);
  }
  const absl::StatusOr<int64_t> length =
      get_count(rope, "original_max_position_embeddings", 1 << 24);
  if (!length.ok()) return in_rope(length.status());
  rope.erase("llama_4_scaling_beta");
  rope.erase("max_position_embeddings");  // Repeated there, and read by nobody.
  return QueryScaling{.beta = *beta, .length = *length};
}

absl::StatusOr<QueryScaling> read_temperature(const Json& json) {
  QueryScaling scaling;
  const Json tuning = json.value("attn_temperature_tuning", Json());
  if (!tuning.is_boolean() && !tuning.is_number_integer()) {  // Early files have a 4 there.
    return invalid_argument("attn_temperature_tuning: must be true or false, found {}",
                            describe(tuning));
  }
  const bool tuned = tuning.is_boolean() ? tuning.get<bool>() : tuning.get<int64_t>() != 0;
  if (!tuned) return scaling;
  ASSIGN_OR_RETURN(scaling.beta, get_double(json, "attn_scale", 0.1));
  if (!(scaling.beta >= 0 && scaling.beta <= 1000)) {
    return invalid_argument("attn_scale: must be a number from 0 to 1000, found {}", scaling.beta);
  }
  ASSIGN_OR_RETURN(scaling.length, get_count(json, "floor_scale", 1 << 24, 8192));
  scaling.offset = 1;
  return scaling;
}

absl::Status set_query_scales(const QueryScaling& scaling, double positions, Config& config) {
  constexpr int64_t kMostScales = 1 << 16;
  if (scaling.length == 0) return absl::OkStatus();
  const double last = positions + static_cast<double>(scaling.offset);
  const auto count = static_cast<int64_t>(std::ceil(last / static_cast<double>(scaling.length)));
  if (count > kMostScales) {
    return invalid_argument(
        "{}: must be at least a part in {} of the {} positions, found {}",
        scaling.offset > 0 ? "floor_scale" : "rope_parameters.original_max_position_embeddings",
        kMostScales, positions, scaling.length);
  }
  config.query_scales.length = scaling.length;
  config.query_scales.offset = scaling.offset;
  for (int64_t i = 0; i < count; ++i) {
    const double scale = 1 + scaling.beta * exact_log(static_cast<double>(1 + i));
    config.query_scales.scales.push_back(static_cast<float>(scale));
  }
  return absl::OkStatus();
}

}  // namespace lockstep

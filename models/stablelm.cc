// SPDX-License-Identifier: Apache-2.0
// StableLM, and its older form, StableLM epoch: Llama's blocks with layer norms; a part of each
// head turns. Where halves are parallel, one norm feeds both.
#include "models/stablelm.h"

#include "base/status.h"
#include "models/blocks.h"

namespace lockstep {

void build_stablelm(Graph& g, const Config& c) { build_layers(g, c, {}); }

absl::Status check_stablelm_epoch(const Json& json) {
  ASSIGN_OR_RETURN(const double factor, get_double(json, "rotary_scaling_factor", 1));
  if (factor == 1) return absl::OkStatus();
  return invalid_argument("rotary_scaling_factor: {} is not supported; supported: 1", factor);
}

}  // namespace lockstep

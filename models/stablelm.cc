// SPDX-License-Identifier: Apache-2.0
// StableLM's older form, StableLM epoch: Llama's blocks with layer norms, as StableLM's.
#include "models/stablelm.h"

#include "base/status.h"

namespace lockstep {

absl::Status check_stablelm_epoch(const Json& json) {
  ASSIGN_OR_RETURN(const double factor, get_double(json, "rotary_scaling_factor", 1));
  if (factor == 1) return absl::OkStatus();
  return invalid_argument("rotary_scaling_factor: {} is not supported; supported: 1", factor);
}

}  // namespace lockstep

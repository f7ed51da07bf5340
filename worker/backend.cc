// SPDX-License-Identifier: Apache-2.0
#include "worker/backend.h"

#include "base/cpu.h"
#include "worker/kernels/find.h"

namespace lockstep {

Backend cpu_backend() {
  return {.device = host_device(), .kernels = cpu_kernels(), .isa = best_isa()};
}

}  // namespace lockstep

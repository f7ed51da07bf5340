// SPDX-License-Identifier: Apache-2.0
// What a worker does about proof (proof.h) when it loads: what is on file, the rest tried on the
// device, the choice, and what the log has to say of it.
#pragma once

#include <atomic>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/kernel_choice/bindings.h"
#include "worker/kernel_choice/proof.h"

namespace lockstep {

struct ProvenOptions {
  std::string folder = {};  // Of the file; "": none.
  // Of each linear, that the group agreed on; none: this rank's own choice.
  std::vector<std::string> wanted = {};
  int64_t (*now_ns)() = steady_now_ns;
  Progress* progress = nullptr;
  const std::atomic<bool>* cancelled = nullptr;
};

// As bind(), with kernels that are proven, where the backend wants that; `kernels` are then
// kernels_text(). Other errors than bind()'s are the device's, kCancelled, or kFailedPrecondition:
// a kernel is wanted that there is not.
absl::StatusOr<Bindings> bind_proven(const program::Program& program, const Backend& backend,
                                     const WeightSource& source, Parallel& parallel,
                                     const ProvenOptions& options,
                                     std::vector<std::string>* kernels);

// Whether linears of these texts are computed as the group agreed, if it did.
bool computes_as(std::span<const std::string> text, std::span<const std::string> wanted);

}  // namespace lockstep

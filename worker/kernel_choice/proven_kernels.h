// SPDX-License-Identifier: Apache-2.0
// Proof (proof.h) when a worker loads. Reads the file of earlier proofs. On the device it tries the
// kernels that this file lacks. Then it chooses the kernels, and logs the result.
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
  std::string folder = {};  // The file's folder; "": no file.
  // The kernels that the group agreed on, one per linear; empty: this rank chooses.
  std::vector<std::string> wanted = {};
  int64_t (*now_ns)() = steady_now_ns;
  Progress* progress = nullptr;
  const std::atomic<bool>* cancelled = nullptr;
};

// Like bind(), with proven kernels if the backend requires proof; `kernels` are then set to
// kernels_text(). Errors are those of bind() and of the device, kCancelled, or kFailedPrecondition:
// a kernel of `wanted` does not exist or is refused here.
absl::StatusOr<Bindings> bind_proven(const program::Program& program, const Backend& backend,
                                     const WeightSource& source, Parallel& parallel,
                                     const ProvenOptions& options,
                                     std::vector<std::string>* kernels);

// True if the linears that `text` (from kernels_text()) describes use the kernels `wanted`, which
// the group agreed on. True, too, if the group agreed on none.
bool computes_as(std::span<const std::string> text, std::span<const std::string> wanted);

}  // namespace lockstep

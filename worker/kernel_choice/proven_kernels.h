// SPDX-License-Identifier: Apache-2.0
// A worker's part of proof (proof.h) when it loads: reads the file, tries the rest on the device,
// chooses the kernels, and logs the result.
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

// Like bind(), with proven kernels if the backend requires proof; then `kernels` are
// kernels_text(). Errors other than bind()'s are the device's, kCancelled, or kFailedPrecondition:
// a kernel of `wanted` does not exist.
absl::StatusOr<Bindings> bind_proven(const program::Program& program, const Backend& backend,
                                     const WeightSource& source, Parallel& parallel,
                                     const ProvenOptions& options,
                                     std::vector<std::string>* kernels);

// Whether linears with these texts are computed as the group agreed; true if it agreed on nothing.
bool computes_as(std::span<const std::string> text, std::span<const std::string> wanted);

}  // namespace lockstep

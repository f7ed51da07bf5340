// SPDX-License-Identifier: Apache-2.0
// Proof at load: trials on this device decide which kernel computes each linear and gated_linear of
// a program. A kernel that was never tried on this device, or disagrees with the plain kernel,
// computes no token.
//
// The exact class uses the table's first proven kernel, whatever its time: the choice must not
// depend on how a matrix is sharded. The fast class chooses by time: for each number of rows, a
// kernel's time is divided by that of the fastest kernel, and the kernel with the smallest mean of
// these ratios is used. A kernel later in the table replaces an earlier one only if it is faster by
// 5 %. A shape that was not tried in time is computed by a kernel that was proven at another shape
// of this program and refused at none; if there is none, by the plain kernel.
//
// For attention over pages of bfloat16 or int8, and for expert_linear over bfloat16 and codes, a
// GPU may have several kernels with the same bits. So each rank chooses by time, in every class; a
// kernel with other bits than the table's last one is refused. If there is one kernel, nothing is
// tried.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/program.pb.h"
#include "worker/backend.h"
#include "worker/kernel_choice/trial.h"

namespace lockstep {

// The trials by shape; for each shape the kernels in the table's order, the plain one last.
struct Proof {
  std::vector<Trial> trials;

  const Trial* find(const TrialShape& shape, const std::string& kernel) const;
  bool complete() const;  // Every kernel is proven or refused.
};

// Every shape of the program with every candidate, all of them untried.
Proof untried(const program::Program& program, const Backend& backend);

struct ProofOptions {
  int64_t budget_ms = 0;
  int64_t (*now_ns)() = steady_now_ns;
  Progress* progress = nullptr;
  const std::atomic<bool>* cancelled = nullptr;
  // Called before each trial, so that a trial that ends the process is on record. May be null.
  std::function<void(const Trial& next)> begins = nullptr;
};

// Tries all unproven kernels, the smallest weights first, until the time is over. Errors:
// kCancelled; or the device's error, after which the device is unusable. After an error, `proof`
// has what was found before it.
absl::Status prove(const program::Program& program, const Backend& backend,
                   const WeightSource& source, Parallel& parallel, const ProofOptions& options,
                   Proof* proof);

// Lines for the log: a warning for each kernel that is refused, and one for all that are unproven.
std::vector<std::string> complaints(const Proof& proof, int64_t budget_ms);

// The kernel of each instruction; null: no proof chooses its kernel. `wanted`, one per linear, are
// the kernels that the group agreed on; empty: this rank chooses. kFailedPrecondition: there is no
// such kernel.
absl::StatusOr<std::vector<const KernelEntry*>> chosen_kernels(
    const program::Program& program, const Backend& backend, const Proof& proof,
    std::span<const std::string> wanted = {});

// The kernel of each shape that the program has.
std::map<TrialShape, std::string> by_shape(const program::Program& program, const Backend& backend,
                                           const std::vector<const KernelEntry*>& chosen);

// For each linear, as in cluster.Ready: the kernel that computes it, then others that could.
std::vector<std::string> kernels_text(const program::Program& program, const Backend& backend,
                                      const Proof& proof,
                                      const std::vector<const KernelEntry*>& chosen);

}  // namespace lockstep

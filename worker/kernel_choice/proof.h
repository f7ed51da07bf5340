// SPDX-License-Identifier: Apache-2.0
// Proof at load: which kernel computes each linear and gated_linear of a program is decided by what
// kernels do on this device. One that was never tried here, or disagrees with the plain kernel,
// gives no token.
//
// The exact class takes the table's first that is proven, whatever its time: the choice must not
// depend on how a matrix is cut. The fast class takes the one with the least mean of its times,
// each in parts of the fastest for so many rows; an earlier one of the table unless another is by a
// twentieth faster. What the time did not suffice for, and a kernel of which no more is known, is
// computed by a kernel that was proven at another shape of this program and refused at none; where
// there is none, by the plain one.
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
#include "worker/kernel_choice/kernel_trial.h"

namespace lockstep {

// By shape; of each the kernels in the order of their table, the plain one last.
struct Proof {
  std::vector<Trial> trials;

  const Trial* find(const LinearShape& shape, const std::string& kernel) const;
  bool complete() const;  // Every kernel is proven, or refused.
};

// Every shape of the program with every candidate, nothing of it tried.
Proof untried(const program::Program& program, const Backend& backend);

struct ProofOptions {
  int64_t budget_ms = 0;
  int64_t (*now_ns)() = steady_now_ns;
  Progress* progress = nullptr;
  const std::atomic<bool>* cancelled = nullptr;
  // Before each trial, with what is known: where the process may end is on record. Null: nowhere.
  std::function<void(const Trial& next)> begins = nullptr;
};

// Tries what is not known, the smallest weights first, as long as the time suffices. An error is
// the device's, which is then of no more use, or kCancelled; `proof` has what was found by then.
absl::Status prove(const program::Program& program, const Backend& backend,
                   const WeightSource& source, Parallel& parallel, const ProofOptions& options,
                   Proof* proof);

// Lines for the log: a warning for each kernel that is refused and one for all that is left.
std::vector<std::string> complaints(const Proof& proof, int64_t budget_ms);

// By instruction; null: it is no linear. `wanted`, of each linear, are the kernels that the group
// agreed on; none: this rank's own choice. kFailedPrecondition: there is no such kernel.
absl::StatusOr<std::vector<const KernelEntry*>> chosen_kernels(
    const program::Program& program, const Backend& backend, const Proof& proof,
    std::span<const std::string> wanted = {});

// The kernel of each shape that the program has.
std::map<LinearShape, std::string> by_shape(const program::Program& program,
                                            const std::vector<const KernelEntry*>& chosen);

// Of each linear, as cluster.Ready has them: the kernel that computes it, then others that could.
std::vector<std::string> kernels_text(const program::Program& program, const Backend& backend,
                                      const Proof& proof,
                                      const std::vector<const KernelEntry*>& chosen);

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// The kernels that run each instruction and pack each weight: decided once, before anything is
// allocated.
#pragma once

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/program.pb.h"
#include "worker/backend.h"
#include "worker/kernels/kernel.h"

namespace lockstep {

struct Bindings {
  // One per instruction; null for collectives and views.
  std::vector<const KernelEntry*> kernels;
  // One per weight: the kernel that reads the weight. The kernel's pack() decides the weight's
  // layout. Null: plain float32 rows (norms and biases). Weights that no instruction reads are not
  // `used` and not loaded.
  std::vector<const KernelEntry*> packers;
  std::vector<bool> used;
  // One per state: the attention kernel that uses its pages; null if no instruction reads it.
  std::vector<const KernelEntry*> states;
};

// kFailedPrecondition names an operator and the types for which there is no kernel, or what a
// kernel requires of the attributes. The program has passed validate(). `chosen` has one kernel per
// instruction, or is empty. An instruction whose entry is null gets the first kernel of the table;
// so do all instructions if `chosen` is empty.
absl::StatusOr<Bindings> bind(const program::Program& program, const Backend& backend,
                              std::span<const KernelEntry* const> chosen = {});

// The types by which an instruction's kernel is looked up.
DType weight_dtype(const program::Program& program, const program::Instruction& instruction);
DType activation_dtype(const program::Program& program, const program::Instruction& instruction);
// The backend's kernels for these types that have the bits of the program's numeric class, best
// first.
std::vector<const KernelEntry*> kernels_for(const program::Program& program, const Backend& backend,
                                            Op op, DType weight, DType activation);

inline Op op_of(const program::Instruction& instruction) {
  return static_cast<Op>(instruction.op());
}
inline DType dtype_of(program::DType dtype) { return static_cast<DType>(dtype); }

}  // namespace lockstep

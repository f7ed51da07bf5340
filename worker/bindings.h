// SPDX-License-Identifier: Apache-2.0
// Which kernel runs each instruction, and which packs each weight: decided once, before anything is
// allocated.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "proto/program.pb.h"
#include "worker/backend.h"
#include "worker/kernels/kernel.h"

namespace lockstep {

struct Bindings {
  // By instruction; null for collectives and views.
  std::vector<const KernelEntry*> kernels;
  // By weight: the kernel that reads it, whose pack() lays it out. Null: plain float32 rows (norms
  // and biases). Weights that nothing reads are not `used` and not loaded.
  std::vector<const KernelEntry*> packers;
  std::vector<bool> used;
  // By state: the attention kernel whose pages it has; null where nothing reads it.
  std::vector<const KernelEntry*> states;
};

// kFailedPrecondition names an operator and the types for which there is no kernel, or what a
// kernel wants of the attributes. The program has passed validate().
absl::StatusOr<Bindings> bind(const program::Program& program, const Backend& backend);

inline Op op_of(const program::Instruction& instruction) {
  return static_cast<Op>(instruction.op());
}
inline DType dtype_of(program::DType dtype) { return static_cast<DType>(dtype); }

}  // namespace lockstep

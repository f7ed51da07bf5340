// SPDX-License-Identifier: Apache-2.0
#include "proto/step_values.h"

#include "base/numbers/dtype.h"
#include "base/status.h"
#include "proto/row_domains.h"

namespace lockstep {

int64_t made_bytes(const program::Program& program, int instruction, int64_t tokens,
                   int64_t outputs) {
  const program::Instruction& maker = program.instructions(instruction);
  if (maker.op() == program::COLUMNS) return 0;
  int64_t bytes = 0;
  for (const int index : maker.outputs()) {
    const program::Value& value = program.values(index);
    bytes += rows_in(program.row_domains(value.rows()), tokens, outputs) * value.cols() *
             dtype_bytes(static_cast<DType>(value.dtype()));
  }
  return bytes;
}

absl::Status check_values(const cluster::Step& step, const program::Program& program) {
  if (!step.has_values()) return absl::OkStatus();
  const cluster::InstructionRange& range = step.values();
  if (range.begin() < 0 || range.begin() > range.end() ||
      range.end() > program.instructions_size()) {
    return invalid_argument("step {}: values must be of instructions 0 to {}, found {} to {}",
                            step.step(), program.instructions_size(), range.begin(), range.end());
  }
  int64_t bytes = 0;
  for (int i = range.begin(); i < range.end() && bytes <= kMaxValueBytes; ++i) {
    bytes += made_bytes(program, i, step.tokens_size(), step.outputs_size());
  }
  if (bytes <= kMaxValueBytes) return absl::OkStatus();
  return invalid_argument(
      "step {}: values of instructions {} to {}: must have at most {} bytes, found more",
      step.step(), range.begin(), range.end(), kMaxValueBytes);
}

}  // namespace lockstep

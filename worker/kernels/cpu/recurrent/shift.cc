// SPDX-License-Identifier: Apache-2.0
// out[r] = x[r - 1] over the rows of a sequence; its state block has the last row of x. A thread
// processes some columns of one sequence through all its rows.
#include "worker/kernels/cpu/vector/vec.h"
#include "worker/kernels/kernel.h"

namespace lockstep::LOCKSTEP_ISA {

const char* shift(const KernelArgs& args) {
  const TensorView &x = args.in[0], &out = args.out[0];
  constexpr int64_t kColumns = 1024;  // Columns of one task.
  const int64_t pieces = (x.cols + kColumns - 1) / kColumns;
  if (pieces <= 0) return nullptr;
  for_each(*args.parallel, args.step->sequence_count * pieces, [&](int64_t index) {
    const StepSequence& sequence = args.step->sequences[index / pieces];
    const int64_t column = index % pieces * kColumns;
    const auto bytes = static_cast<size_t>(min(kColumns, x.cols - column)) * sizeof(float);
    float* block = args.state.block(sequence.slot) + column;
    const int64_t first = sequence.first_row, end = first + sequence.rows;
    if (sequence.first_position == 0) __builtin_memset(block, 0, bytes);
    __builtin_memcpy(out.row<float>(first) + column, block, bytes);
    for (int64_t r = first + 1; r < end; ++r) {
      __builtin_memcpy(out.row<float>(r) + column, x.row<float>(r - 1) + column, bytes);
    }
    __builtin_memcpy(block, x.row<float>(end - 1) + column, bytes);
  });
  return nullptr;
}

}  // namespace lockstep::LOCKSTEP_ISA

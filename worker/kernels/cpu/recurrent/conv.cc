// SPDX-License-Identifier: Apache-2.0
// out[r][c] = bias[c] + sum over taps j, in order, of weight[c][j] * x[r - taps + 1 + j][c] over
// the rows of a sequence. The sequence's state block has the last taps - 1 rows of x. A column's
// sums depend on no other column, so a thread processes sixteen columns of one sequence through all
// its rows.
#include "worker/kernels/cpu/vector/vec.h"
#include "worker/kernels/kernel.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

struct Taps {
  Vec weight[kMaxTaps];  // Sixteen columns each; the last is for the row itself.
  Vec bias;
  int64_t count;

  Taps(const KernelArgs& args, int64_t column, int64_t columns)
      : bias(Vec::zero()), count(args.attrs.conv().taps) {
    const float* from = args.in[1].row<float>(0) + column * count;
    for (int64_t j = 0; j < count; ++j) {
      float lanes[Vec::kLanes] = {};
      for (int64_t i = 0; i < columns; ++i) lanes[i] = from[i * count + j];
      weight[j] = Vec::load(lanes);
    }
    if (args.in[2].data != nullptr) bias = Vec::load(args.in[2].row<float>(0) + column, columns);
  }
};

// Computes columns [column, column + columns) of a sequence's rows.
void convolve(const KernelArgs& args, const StepSequence& sequence, int64_t column,
              int64_t columns) {
  const TensorView &x = args.in[0], &out = args.out[0];
  const Taps taps(args, column, columns);
  const int64_t before = taps.count - 1;
  float* block = args.state.block(sequence.slot) + column;
  Vec past[kMaxTaps];  // The rows before, the oldest first.
  for (int64_t j = 0; j < before; ++j) {
    const bool begins = sequence.first_position == 0;
    past[j] = begins ? Vec::zero() : Vec::load(block + j * x.cols, columns);
  }
  for (int64_t r = sequence.first_row; r < sequence.first_row + sequence.rows; ++r) {
    past[before] = Vec::load(x.row<float>(r) + column, columns);
    Vec sum = taps.bias;
    for (int64_t j = 0; j <= before; ++j) sum = fma(taps.weight[j], past[j], sum);
    sum.store(out.row<float>(r) + column, columns);
    for (int64_t j = 0; j < before; ++j) past[j] = past[j + 1];
  }
  for (int64_t j = 0; j < before; ++j) past[j].store(block + j * x.cols, columns);
}

}  // namespace

const char* conv(const KernelArgs& args) {
  const int64_t cols = args.in[0].cols;
  if (cols <= 0) return nullptr;
  constexpr int64_t kColumns = 8 * Vec::kLanes;  // Columns of one task.
  const int64_t pieces = (cols + kColumns - 1) / kColumns;
  for_each(*args.parallel, args.step->sequence_count * pieces, [&](int64_t index) {
    const StepSequence& sequence = args.step->sequences[index / pieces];
    const int64_t begin = index % pieces * kColumns, end = min(begin + kColumns, cols);
    for (int64_t column = begin; column < end; column += Vec::kLanes) {
      convolve(args, sequence, column, min(Vec::kLanes, end - column));
    }
  });
  return nullptr;
}

}  // namespace lockstep::LOCKSTEP_ISA

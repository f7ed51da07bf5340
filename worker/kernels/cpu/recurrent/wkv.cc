// SPDX-License-Identifier: Apache-2.0
// RWKV-4's mean (Peng et al., 2023, https://arxiv.org/abs/2305.13048), column by column: the
// weighted mean of v over the rows so far. An earlier row has the weight e^(k - age * e^decay),
// with age 0 for the row just before; the row itself has the weight e^(k + first). The state block
// has the sum of weights times v, the sum of weights, and scale. Both sums are divided by e^scale,
// where scale is the largest exponent, so that nothing overflows. A thread processes sixteen
// columns of one sequence through all its rows.
#include "worker/kernels/cpu/vector/vec.h"
#include "worker/kernels/cpu/vector/vec_math.h"
#include "worker/kernels/kernel.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

constexpr float kEmptyScale = -1e38f;  // The scale of empty sums.

struct Sums {
  Vec above;  // The sum of weights times v.
  Vec below;  // The sum of weights.
  Vec scale;

  // The present sums times e^shift, plus v with the weight e^exponent.
  Sums with(Vec v, Vec exponent, Vec shift) const {
    const Vec old = scale + shift, largest = max(old, exponent);
    const Vec kept = exp(old - largest), added = exp(exponent - largest);
    return {fma(kept, above, added * v), fma(kept, below, added), largest};
  }
};

void mean_columns(const KernelArgs& args, const StepSequence& sequence, int64_t column,
                  int64_t columns) {
  const TensorView &k = args.in[0], &v = args.in[1];
  const Vec decay = Vec::zero() - exp(Vec::load(args.in[2].row<float>(0) + column, columns));
  const Vec first = Vec::load(args.in[3].row<float>(0) + column, columns);
  float* block = args.state.block(sequence.slot) + column;
  Sums sums = {Vec::zero(), Vec::zero(), Vec::splat(kEmptyScale)};
  if (sequence.first_position > 0) {
    sums = {Vec::load(block, columns), Vec::load(block + k.cols, columns),
            Vec::load(block + 2 * k.cols, columns)};
  }
  for (int64_t r = sequence.first_row; r < sequence.first_row + sequence.rows; ++r) {
    const Vec key = Vec::load(k.row<float>(r) + column, columns);
    const Vec value = Vec::load(v.row<float>(r) + column, columns);
    const Sums now = sums.with(value, first + key, Vec::zero());
    (now.above / now.below).store(args.out[0].row<float>(r) + column, columns);
    sums = sums.with(value, key, decay);
  }
  sums.above.store(block, columns);
  sums.below.store(block + k.cols, columns);
  sums.scale.store(block + 2 * k.cols, columns);
}

}  // namespace

const char* wkv(const KernelArgs& args) {
  const int64_t cols = args.in[0].cols;
  const int64_t pieces = (cols + Vec::kLanes - 1) / Vec::kLanes;
  if (pieces <= 0) return nullptr;
  for_each(*args.parallel, args.step->sequence_count * pieces, [&](int64_t index) {
    const int64_t column = index % pieces * Vec::kLanes;
    mean_columns(args, args.step->sequences[index / pieces], column,
                 min(Vec::kLanes, cols - column));
  });
  return nullptr;
}

}  // namespace lockstep::LOCKSTEP_ISA

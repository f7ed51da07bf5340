// SPDX-License-Identifier: Apache-2.0
// The float32 linear of GPUs: one order of sums for any number of rows.
#include "tests/worker/kernels/weights_case.h"

namespace lockstep {
namespace {

float sum_in_order(const Linear& linear, int64_t r, int64_t n) {
  float sum = 0;
  for (int64_t k = 0; k < linear.x.view().cols; ++k) {
    sum = std::fma(linear.x.at(r, k), linear.weight.at(n, k), sum);
  }
  return sum + linear.bias.at(0, n);
}

TEST(LinearF32Test, EverySumIsOneChainInOrderOfK) {
  int tested = 0;
  for (const KernelEntry& kernel : kernels_of(Op::kLinear)) {
    if (kernel.weight != DType::kF32 || kernel.own_bits) continue;
    // The numbers of rows are around the sizes of tiles; the depths are around the part of K that
    // is read at a time.
    for (const int64_t rows : {1, 16, 17, 65}) {
      for (const int64_t depth : {1, 33, 129, 300}) {
        const Linear linear(kernel, rows, 67, depth);
        const Matrix found = linear.run_kernel(kernel);
        for (int64_t i = 0; i < rows * 67; ++i) {
          ASSERT_EQ(found.at(i / 67, i % 67), sum_in_order(linear, i / 67, i % 67))
              << kernel.name << ", " << rows << " rows of " << depth << ": " << i;
        }
      }
    }
    ++tested;
  }
  EXPECT_GE(tested, 1);
}

}  // namespace
}  // namespace lockstep

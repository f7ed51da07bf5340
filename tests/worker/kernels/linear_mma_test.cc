// SPDX-License-Identifier: Apache-2.0
// The linear on tensor cores over the shim: one order of sums for any blocks.
#include "tests/worker/kernels/mma_ways.h"
#include "tests/worker/kernels/tensor_core_model.h"
#include "tests/worker/kernels/weights_case.h"
#include "worker/kernels/cuda/linear/weight_words.h"
#include "worker/kernels/cuda/shim/table.h"

namespace lockstep {
namespace {

using cuda_shim::MmaBlocks;

constexpr MmaBlocks kOtherBlocks[] = {MmaBlocks::kStream16, MmaBlocks::kStream32,
                                      MmaBlocks::kStream64, MmaBlocks::kTile128};

std::vector<KernelEntry> mma_kernels() {
  std::vector<KernelEntry> found;
  for (const KernelEntry& kernel : cuda_shim_kernels()) {
    if (std::string_view(kernel.name).starts_with("linear_mma_")) found.push_back(kernel);
  }
  return found;
}

Matrix first_rows(const Linear& linear, const KernelEntry& kernel, int64_t begin, int64_t rows) {
  Linear part(kernel, 0, 0, 0);
  part.x = Matrix(rows, linear.x.view().cols, kernel.activation);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t k = 0; k < linear.x.view().cols; ++k) {
      reference::set_element(part.x.view(), r, k, linear.x.at(begin + r, k));
    }
  }
  part.weight = linear.weight.slice(0, linear.weight.view().rows);
  part.bias = linear.bias.copy();
  return part.run_kernel(kernel);
}

TensorView rows_of(const Matrix& whole, int64_t begin, int64_t rows) {
  TensorView view = whole.view();
  view.data = view.row<float>(begin);
  view.rows = rows;
  return view;
}

class LinearMmaTest : public testing::TestWithParam<KernelEntry> {};

TEST_P(LinearMmaTest, AllBlockShapesGiveTheSameBits) {
  struct Shape {
    int64_t rows, cols, depth;
  };
  for (const Shape& s :
       {Shape{3, 33, 65}, Shape{70, 150, 200}, Shape{131, 17, 40}, Shape{9, 40, 1100}}) {
    const Linear linear(GetParam(), s.rows, s.cols, s.depth);
    const Matrix wanted = linear.run_kernel(by(GetParam(), MmaBlocks::kStream8));
    for (const MmaBlocks blocks : kOtherBlocks) {
      const auto order =
          static_cast<int>(blocks) % 2 == 0 ? shim::Order::kAscending : shim::Order::kDescending;
      shim::set_order(order);
      expect_same_bits(
          linear.run_kernel(by(GetParam(), blocks)).view(), wanted.view(),
          std::to_string(static_cast<int>(blocks)) + " of depth " + std::to_string(s.depth));
    }
  }
}

TEST_P(LinearMmaTest, BothOrdersOfThreadsGiveTheSameBits) {
  const Linear linear(GetParam(), 20, 40, 300);  // More units of K than stages (buffers for units).
  for (const MmaBlocks blocks : {MmaBlocks::kStream32, MmaBlocks::kTile128}) {
    shim::set_order(shim::Order::kAscending);
    const Matrix late = linear.run_kernel(by(GetParam(), blocks));
    shim::set_order(shim::Order::kDescending);
    expect_same_bits(linear.run_kernel(by(GetParam(), blocks)).view(), late.view(), "descending");
  }
}

TEST_P(LinearMmaTest, ARowHasTheSameBitsAloneAndAmongAnyNumberOfOthers) {
  const Linear linear(GetParam(), 130, 20, 72);
  const Matrix whole = linear.run_kernel(GetParam());
  for (int64_t rows = 1; rows <= 130; rows += rows < 70 ? 1 : 12) {
    const Matrix first = first_rows(linear, GetParam(), 0, rows);
    expect_same_bits(first.view(), rows_of(whole, 0, rows), std::to_string(rows) + " rows");
    const Matrix alone = first_rows(linear, GetParam(), rows - 1, 1);
    expect_same_bits(alone.view(), rows_of(whole, rows - 1, 1), "row alone");
  }
}

// Tries strides of rows that are multiples of 16 bytes, and one that is not.
TEST_P(LinearMmaTest, TheStrideOfRowsChangesNoBit) {
  const KernelEntry& kernel = GetParam();
  Linear linear(kernel, 5, 24, 128);
  const Matrix wanted = linear.run_kernel(kernel);
  for (const int64_t stride : {128, 136, 129}) {
    Matrix x(5, 128, kernel.activation, stride);
    for (int64_t r = 0; r < 5; ++r) {
      for (int64_t k = 0; k < 128; ++k) reference::set_element(x.view(), r, k, linear.x.at(r, k));
    }
    linear.x = x.copy();
    expect_same_bits(linear.run_kernel(kernel).view(), wanted.view(), std::to_string(stride));
  }
}

// The nearest bfloat16 to a number that a long double represents exactly; ties to even.
uint16_t nearest_bf16(long double x) {
  if (x == 0) return std::signbit(x) ? 0x8000 : 0;
  int exponent = 0;
  std::frexp(x, &exponent);
  const int unit = std::max(exponent - 8, -133);
  return float_to_bf16(static_cast<float>(std::ldexp(std::nearbyint(std::ldexp(x, -unit)), unit)));
}

// A number of the weight as tensor cores multiply it: a decoded number is rounded to bfloat16 once.
float multiplied(const Weights& weight, int64_t n, int64_t col) {
  const TensorView& view = weight.view();
  const auto kind = quantization(view.dtype);
  if (!kind) return weight.at(n, col);
  if (!kind->minimum) return bf16_to_float(float_to_bf16(weight.at(n, col)));
  const auto& rows = *static_cast<const QuantizedRows*>(view.data);
  const int64_t group = n * group_count(*kind, view.cols) + col / kind->group;
  const auto scale = static_cast<long double>(bf16_to_float(rows.scales[group]));
  const auto minimum = static_cast<long double>(bf16_to_float(rows.minima[group]));
  return bf16_to_float(nearest_bf16(scale * rows.codes[n * view.cols + col] + minimum));
}

// The sum of each slice of 1024 columns starts from zero. A tensor core adds every 32 columns in
// two steps: first the first four of every eight columns, then the other four.
float canonical_sum(const Linear& linear, int64_t r, int64_t n, int min_exponent) {
  const int64_t depth = linear.x.view().cols;
  float total = 0;
  for (int64_t slice = 0; slice < depth; slice += 1024) {
    float sum = 0;
    for (int64_t at = slice; at < std::min(depth, slice + 1024); at += 32) {
      for (const int64_t half : {0, 4}) {
        float weight[16] = {}, x[16] = {};
        for (int i = 0; i < 16; ++i) {
          const int64_t col = at + half + i / 4 * 8 + i % 4;
          if (col >= depth) continue;
          weight[i] = multiplied(linear.weight, n, col);
          x[i] = linear.x.view().dtype == DType::kF32
                     ? bf16_to_float(float_to_bf16(linear.x.at(r, col)))
                     : linear.x.at(r, col);
        }
        sum = modelled_step(weight, x, sum, min_exponent);
      }
    }
    total = total + sum;
  }
  return total;
}

int min_exponent_of(const KernelEntry& kernel) {
  return kernel.weight == DType::kF16 ? kMinExponentOfF16 : kMinExponentOfBF16;
}

TEST(LinearMmaOrderTest, SumsFollowTheDocumentedSlicesAndSteps) {
  for (const KernelEntry& kernel : mma_kernels()) {
    for (const int64_t depth : {1, 31, 64, 100, 1023, 1024, 1025, 3000}) {
      const Linear linear(kernel, 2, 17, depth);
      const Matrix found = linear.run_kernel(kernel, 1, false);
      for (int64_t r = 0; r < 2; ++r) {
        for (int64_t n = 0; n < 17; ++n) {
          ASSERT_EQ(found.at(r, n), canonical_sum(linear, r, n, min_exponent_of(kernel)))
              << kernel.name << " " << depth << ": " << r << ", " << n;
        }
      }
    }
  }
}

TEST(LinearMmaOrderTest, MoreSlicesThanWarpsAreAddedInOrder) {
  constexpr int64_t kDepth = 10 * 1024 + 70;  // 11 slices: two rounds of six warps.
  const KernelEntry kernel = mma_kernels()[0];
  const Linear linear(kernel, 2, 3, kDepth);
  for (const MmaBlocks blocks : {MmaBlocks::kStream8, MmaBlocks::kStream64}) {
    const Matrix found = linear.run_kernel(by(kernel, blocks), 1, false);
    for (int64_t n = 0; n < 3; ++n) {
      ASSERT_EQ(found.at(1, n), canonical_sum(linear, 1, n, min_exponent_of(kernel)));
    }
  }
}

TEST(LinearMmaBlocksTest, FewRowsAreStreamedAndManyRowsUseTilesIfThereAreEnoughTiles) {
  EXPECT_EQ(cuda_shim::mma_blocks(1, 4096), MmaBlocks::kStream8);
  EXPECT_EQ(cuda_shim::mma_blocks(9, 4096), MmaBlocks::kStream16);
  EXPECT_EQ(cuda_shim::mma_blocks(17, 4096), MmaBlocks::kStream32);
  EXPECT_EQ(cuda_shim::mma_blocks(64, 1 << 20), MmaBlocks::kStream64);
  EXPECT_EQ(cuda_shim::mma_blocks(128, 1024), MmaBlocks::kStream64);
  EXPECT_EQ(cuda_shim::mma_blocks(65, 14336), MmaBlocks::kTile128);
  EXPECT_EQ(cuda_shim::mma_blocks(8192, 4096), MmaBlocks::kTile128);
}

INSTANTIATE_TEST_SUITE_P(Shim, LinearMmaTest, testing::ValuesIn(mma_kernels()), kernel_name);

bool is_finite(uint16_t bits) { return (bits & 0x7f80) != 0x7f80; }

// Decodes two codes with their scale: returns lane 0's word with columns 0 and 1 of row 0, for the
// first step.
template <DType kWeight>
uint32_t unpacked(int first, int second, uint16_t scale, uint16_t minimum = 0) {
  cuda_shim::WeightWords<kWeight> words{};
  constexpr bool kEight = cuda_shim::WeightWords<kWeight>::kKind.bits == 8;
  const auto low = static_cast<uint32_t>(first), high = static_cast<uint32_t>(second);
  words.codes[0].at[0] = kEight ? (low & 0xff) | (high & 0xff) << 16 : low | high << 16;
  words.scales.at[0] = scale;
  words.minima.at[0] = minimum;
  uint32_t a[4];
  words.words_of(0, a);
  return a[0];
}

TEST(WeightWordsTest, Every4BitCodeTimesEveryScaleIsRoundedOnce) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto scale = static_cast<uint16_t>(bits);
    if (!is_finite(scale)) continue;
    for (int code = 0; code < 16; code += 2) {
      const uint32_t pair = unpacked<DType::kQ4>(code, code + 1, scale);
      const float value = bf16_to_float(scale);
      const uint32_t low = float_to_bf16(static_cast<float>(code - 8) * value);
      const uint32_t high = float_to_bf16(static_cast<float>(code - 7) * value);
      ASSERT_EQ(pair, low | high << 16) << code << " * " << value;
    }
  }
}

TEST(WeightWordsTest, Every8BitCodeTimesScalesIsRoundedOnce) {
  for (uint32_t bits = 0; bits < 0x10000; bits += 13) {
    const auto scale = static_cast<uint16_t>(bits);
    if (!is_finite(scale)) continue;
    for (int code = -128; code < 128; code += 2) {
      const uint32_t pair = unpacked<DType::kQ8>(code, code + 1, scale);
      const float value = bf16_to_float(scale);
      const uint32_t low = float_to_bf16(static_cast<float>(code) * value);
      const uint32_t high = float_to_bf16(static_cast<float>(code + 1) * value);
      ASSERT_EQ(pair, low | high << 16) << code << " * " << value;
    }
  }
}

TEST(WeightWordsTest, ACodeTimesItsScalePlusAMinimumIsRoundedOnce) {
  int twice = 0;  // Cases in which rounding twice, first to float32, differs.
  for (uint32_t i = 0; i < 200000; ++i) {
    // Scales are in [1, 2), minima from 2^-40 to 2^8 of either sign.
    const auto scale = static_cast<uint16_t>(0x3f80 + i % 128);
    const auto minimum = static_cast<uint16_t>(0x2b80 + i * 2654435761u % 0x1800 + i % 2 * 0x8000);
    const int code = static_cast<int>(i / 7 % 15);
    const uint32_t pair = unpacked<DType::kQ4M>(code, code + 1, scale, minimum);
    for (int half = 0; half < 2; ++half) {
      const auto low = static_cast<long double>(bf16_to_float(minimum));
      const long double sum = static_cast<long double>(bf16_to_float(scale)) * (code + half) + low;
      ASSERT_EQ(pair >> 16 * half & 0xffff, nearest_bf16(sum)) << code << " " << scale;
      twice += nearest_bf16(sum) != float_to_bf16(static_cast<float>(sum));
    }
  }
  EXPECT_GT(twice, 0);
}

}  // namespace
}  // namespace lockstep

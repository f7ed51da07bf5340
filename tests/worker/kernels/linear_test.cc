// SPDX-License-Identifier: Apache-2.0
// Properties of linears for every weight type; quantized_test.cc has properties that only weights
// of small integers have.
#include <bit>
#include <limits>

#include "tests/worker/kernels/weights_case.h"

namespace lockstep {
namespace {

// A GPU's linears over codes: they round rows and decoded weights to bfloat16.
bool decodes(const KernelEntry& kernel) {
  return quantization(kernel.weight) && !has_cpu_bits(kernel);
}
// The CPU's linears over codes: they round float32 rows to int8.
bool rounds_rows(const KernelEntry& kernel) {
  return quantization(kernel.weight) && has_cpu_bits(kernel);
}

bool uses_tensor_cores(const KernelEntry& kernel) {
  return std::string_view(kernel.name).find("_mma_") != std::string_view::npos;
}

// The max number of roundings by 2^-24 in one output, those of a decoded weight included. A step of
// a tensor core adds 16 products to the sum so far. It may truncate each of these 17 numbers at
// 2^-23 of the largest, which counts as two roundings. K is padded to units of 64, with 4 steps
// each.
int64_t roundings(const KernelEntry& kernel, int64_t depth) {
  if (uses_tensor_cores(kernel)) return (depth + 63) / 64 * 4 * 17 * 2 + depth / 1024 + 3;
  const auto kind = quantization(kernel.weight);
  if (!kind || !has_cpu_bits(kernel)) return depth + 2;
  return 3 * group_count(*kind, depth) + 2;
}

// Every rounding errs by at most 2^-24 of a sum, whose magnitude is at most the sum of the
// magnitudes. If x is rounded to int8 codes, the magnitude of an element grows by less than the
// distance between two codes, which is at most largest / 63.
double tolerance(const KernelEntry& kernel, const Linear& linear, int64_t r, int64_t n) {
  const int64_t depth = linear.x.view().cols;
  const auto kind = quantization(kernel.weight);
  const bool rounds = rounds_rows(kernel);
  double largest = 0, size = std::abs(linear.bias.at(0, n));
  for (int64_t k = 0; k < depth; ++k)
    largest = std::max<double>(largest, std::abs(linear.x.at(r, k)));
  for (int64_t k = 0; k < depth; ++k) {
    double weight = std::abs(linear.weight.at(n, k));
    if (kind) {
      const int64_t group = kind->group == 0 ? 0 : k / kind->group;
      const TensorView& view = linear.weight.view();
      weight = std::abs(reference::quantized_code(view, n, k) *
                        reference::quantized_scale(view, n, group)) +
               std::abs(reference::quantized_minimum(view, n, group));
    }
    size += weight * (std::abs(linear.x.at(r, k)) + (rounds ? largest / 63 : 0));
  }
  return static_cast<double>(roundings(kernel, depth)) * 0x1.1p-24 * size;
}

// A decoded weight as bfloat16; only the result is rounded.
float weight_as_bf16(const TensorView& weight, int64_t n, int64_t k) {
  const auto kind = quantization(weight.dtype);
  const int64_t group = kind->group == 0 ? 0 : k / kind->group;
  const auto scale = static_cast<long double>(reference::quantized_scale(weight, n, group));
  const long double exact =
      scale * reference::quantized_code(weight, n, k) +
      static_cast<long double>(reference::quantized_minimum(weight, n, group));
  int exponent = 0;
  std::frexp(exact, &exponent);
  const int unit = std::max(exponent - 8, -133);
  return static_cast<float>(std::ldexp(std::nearbyint(std::ldexp(exact, -unit)), unit));
}

void copy_elements(const TensorView& from, const TensorView& to) {
  for (int64_t r = 0; r < to.rows; ++r) {
    for (int64_t c = 0; c < to.cols; ++c) {
      reference::set_element(to, r, c, reference::element(from, r, c));
    }
  }
}

void expect_agrees(const KernelEntry& kernel, int64_t rows, int64_t cols, int64_t depth,
                   int threads = 1) {
  const Linear linear(kernel, rows, cols, depth);
  const Matrix wanted(rows, cols), found = linear.run_kernel(kernel, threads);
  KernelArgs args = linear.args(wanted);
  // Over codes the reference rounds rows to int8, over floating-point weights it rounds no rows. So
  // for kernels that decode weights it gets rounded rows, and the decoded weights in bfloat16.
  Matrix plain(cols, depth, DType::kBF16);
  Matrix rounded(rows, depth, DType::kBF16);
  if (decodes(kernel)) {
    for (int64_t n = 0; n < cols; ++n) {
      for (int64_t k = 0; k < depth; ++k) {
        reference::set_element(plain.view(), n, k, weight_as_bf16(linear.weight.view(), n, k));
      }
    }
    args.in[1] = plain.view();
    copy_elements(linear.x.view(), rounded.view());
    args.in[0] = rounded.view();
  }
  reference::kernel(Op::kLinear)(args);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t n = 0; n < cols; ++n) {
      ASSERT_NEAR(found.at(r, n), wanted.at(r, n), tolerance(kernel, linear, r, n))
          << rows << "x" << cols << "x" << depth << " at " << r << ", " << n;
    }
  }
}

class LinearTest : public testing::TestWithParam<KernelEntry> {};

TEST_P(LinearTest, LinearAgreesWithTheReferenceAtTheEdgesOfTilesPanelsAndGroups) {
  const KernelEntry& kernel = GetParam();
  for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65}) {
    expect_agrees(kernel, rows, 33, 65);
  }
  expect_agrees(kernel, 512, 3, 34);
  for (const int64_t cols : {1, 15, 16, 17, 31, 32, 33, 64, 95}) {
    expect_agrees(kernel, 3, cols, 33);
    expect_agrees(kernel, 20, cols, 2);
  }
  for (const int64_t depth : {1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 300}) {
    expect_agrees(kernel, 1, 33, depth);
    expect_agrees(kernel, 17, 40, depth);
  }
}

TEST_P(LinearTest, LinearAgreesWithTheReferenceOnARowOfRealSize) {
  expect_agrees(GetParam(), 3, 96, 2048, 2);
  expect_agrees(GetParam(), 18, 33, 2048, 2);
}

// Rows [begin, begin + rows) of `whole`.
Linear some_rows(const KernelEntry& kernel, const Linear& whole, int64_t begin, int64_t rows) {
  const int64_t depth = whole.x.view().cols;
  Linear part(kernel, rows, whole.weight.view().rows, depth);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t k = 0; k < depth; ++k) {
      reference::set_element(part.x.view(), r, k, whole.x.at(begin + r, k));
    }
  }
  return part;
}

TEST_P(LinearTest, ARowsBitsDoNotDependOnTheOtherRows) {
  // On a CPU the deeper product is cut into chunks of K if there are several tiles of rows.
  for (const auto& [cols, depth] : {std::pair(70, 130), std::pair(33, 2600)}) {
    const Linear many(GetParam(), 100, cols, depth);
    const Matrix whole = many.run_kernel(GetParam());
    for (const int64_t rows : {1, 2, 3, 5, 8, 13, 63}) {
      for (const int64_t begin : {int64_t{0}, 100 - rows}) {
        const Matrix part = some_rows(GetParam(), many, begin, rows).run_kernel(GetParam());
        TensorView wanted = whole.view();
        wanted.data = wanted.row<float>(begin);
        wanted.rows = rows;
        expect_same_bits(part.view(), wanted, std::to_string(rows) + " rows");
      }
    }
  }
}

TEST_P(LinearTest, BitsDoNotDependOnThreads) {
  for (const int64_t rows : {1, 64}) {
    for (const int64_t cols : {70, 640}) {
      const Linear linear(GetParam(), rows, cols, 65);
      const Matrix one = linear.run_kernel(GetParam(), 1);
      for (const int threads : {2, 3, 5}) {
        const Matrix several = linear.run_kernel(GetParam(), threads);
        expect_same_bits(several.view(), one.view(), std::to_string(threads) + " threads");
      }
    }
  }
}

TEST_P(LinearTest, SlicesOfColumnsHaveTheBitsOfTheWhole) {
  const std::string name = GetParam().name;
  if (name.find("cublas") != std::string::npos) {
    GTEST_SKIP() << "cuBLASLt's algorithm also depends on the number of columns";
  }
  const Linear whole(GetParam(), 5, 100, 77);
  const Matrix wanted = whole.run_kernel(GetParam());
  for (const auto& [begin, end] : {std::pair(0, 33), std::pair(33, 40), std::pair(40, 100)}) {
    Linear slice(GetParam(), 5, end - begin, 77);
    slice.weight = whole.weight.slice(begin, end);
    for (int64_t n = begin; n < end; ++n) {
      reference::set_element(slice.bias.view(), 0, n - begin, whole.bias.at(0, n));
    }
    const Matrix found = slice.run_kernel(GetParam());
    TensorView columns = wanted.view();
    columns.data = columns.row<float>(0) + begin;
    columns.cols = end - begin;
    expect_same_bits(found.view(), columns, std::to_string(begin));
  }
}

TEST_P(LinearTest, EveryIsaGivesTheSameBits) {
  if (!has_cpu_bits(GetParam())) GTEST_SKIP() << "its bits are its device's own";
  for (const int64_t rows : {1, 11, 64}) {
    const Linear linear(GetParam(), rows, 97, 301);
    const Matrix wanted = linear.run_kernel(portable_of(GetParam()));
    expect_same_bits(linear.run_kernel(GetParam()).view(), wanted.view(), GetParam().name);
  }
}

TEST_P(LinearTest, EveryIsaTreatsDenormalsTheSame) {
  if (!has_cpu_bits(GetParam())) GTEST_SKIP() << "its bits are its device's own";
  Linear linear(GetParam(), 3, 33, 70);
  for (int64_t r = 0; r < 3; ++r) {
    for (int64_t k = 0; k < 70; ++k) {
      const float tiny = k % 3 == 0 ? 0x1.8p-130f : k % 3 == 1 ? -0x1p-120f : 0x1.4p-126f;
      reference::set_element(linear.x.view(), r, k, tiny * static_cast<float>(r + 1));
    }
  }
  const Matrix wanted = linear.run_kernel(portable_of(GetParam()), 1, false);
  expect_same_bits(linear.run_kernel(GetParam(), 1, false).view(), wanted.view(), GetParam().name);
}

// The NaN that a sum of two NaNs gives is unspecified.
TEST_P(LinearTest, EveryIsaTreatsTheLargestAndInfiniteNumbersTheSame) {
  if (!has_cpu_bits(GetParam())) GTEST_SKIP() << "its bits are its device's own";
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float special : {0x1.fcp127f, -0x1.fcp127f, kInfinity, -kInfinity, 0x1p-126f, -0.0f}) {
    Linear linear(GetParam(), 7, 33, 70);
    for (int64_t r = 0; r < 7; ++r) {
      for (int64_t k = r; k < 70; k += 9) reference::set_element(linear.x.view(), r, k, special);
    }
    const Matrix wanted = linear.run_kernel(portable_of(GetParam()), 1, false);
    const Matrix found = linear.run_kernel(GetParam(), 1, false);
    for (int64_t r = 0; r < 7; ++r) {
      for (int64_t c = 0; c < 33; ++c) {
        const float one = found.at(r, c), other = wanted.at(r, c);
        if (std::isnan(one) && std::isnan(other)) continue;
        EXPECT_EQ(std::bit_cast<uint32_t>(one), std::bit_cast<uint32_t>(other))
            << special << " in row " << r << ", column " << c << ": " << one << ", " << other;
      }
    }
  }
}

TEST_P(LinearTest, NoRowsOrNoColumnsWriteNothing) {
  for (const auto& [rows, cols] : {std::pair(0, 8), std::pair(3, 0), std::pair(0, 0)}) {
    const Linear linear(GetParam(), rows, cols, 16);
    EXPECT_TRUE(linear.run_kernel(GetParam(), 2).is_untouched());
  }
}

TEST_P(LinearTest, AnEmptyDepthGivesTheBias) {
  const Linear linear(GetParam(), 2, 20, 0);
  const Matrix found = linear.run_kernel(GetParam());
  for (int64_t c = 0; c < 20; ++c) EXPECT_EQ(found.at(1, c), linear.bias.at(0, c));
}

INSTANTIATE_TEST_SUITE_P(Cpu, LinearTest, testing::ValuesIn(kernels_of(Op::kLinear)), kernel_name);

TEST(LinearF16Test, Float16WeightsGiveTheBitsOfTheSameWeightsInFloat32) {
  const Weights narrow = Weights::random(50, 77, 5, DType::kF16);
  for (const KernelEntry& kernel : kernels_of(Op::kLinear)) {
    // A GPU multiplies float16 by float16.
    if (kernel.weight != DType::kF16 || kernel.activation != DType::kF32) continue;
    const KernelEntry& wide =
        *find_kernel(cpu_kernels(), Op::kLinear, DType::kF32, DType::kF32, kernel.isa);
    Linear f16(kernel, 9, 50, 77), f32(wide, 9, 50, 77);
    // Includes denormals and the largest number, but no infinity.
    const float special[] = {0x1p-24f, -0x1.8p-20f, 65504.0f, 0.0f, -0.0f};
    for (int64_t n = 0; n < 50; ++n) {
      for (int64_t k = 0; k < 77; ++k) {
        const float value = k < 5 ? special[(n + k) % 5] : narrow.at(n, k);
        reference::set_element(f16.weight.view(), n, k, value);
        reference::set_element(f32.weight.view(), n, k, value);
      }
    }
    expect_same_bits(f16.run_kernel(kernel).view(), f32.run_kernel(wide).view(), kernel.name);
  }
}

}  // namespace
}  // namespace lockstep

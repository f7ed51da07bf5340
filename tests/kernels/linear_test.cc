// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/kernel_case.h"

namespace lockstep {
namespace {

std::vector<std::byte> pack(const KernelEntry& kernel, const Matrix& weight) {
  const TensorView& w = weight.view();
  std::vector<std::byte> packed(static_cast<size_t>(kernel.packed_bytes(w.rows, w.cols)));
  std::vector<float> source;
  for (int64_t r = 0; r < w.rows; ++r) {
    for (int64_t c = 0; c < w.cols; ++c) source.push_back(weight.at(r, c));
  }
  // In two pieces, as a loader would.
  const int64_t middle = std::min(w.rows, kPackRows);
  for (const auto& [begin, end] : {std::pair(int64_t{0}, middle), std::pair(middle, w.rows)}) {
    if (begin == end) continue;
    kernel.pack({.source = source.data() + begin * w.cols,
                 .source_stride = w.cols,
                 .rows = w.rows,
                 .cols = w.cols,
                 .row_begin = begin,
                 .row_end = end,
                 .packed = packed.data()});
  }
  return packed;
}

struct Linear {
  Matrix x, weight, bias;

  Linear(DType dtype, int64_t rows, int64_t cols, int64_t depth)
      : x(Matrix::random(rows, depth, 1, dtype, depth + 3)),
        weight(Matrix::random(cols, depth, 2, dtype)),
        bias(Matrix::random(1, cols, 3)) {}

  KernelArgs args(const Matrix& out, bool with_bias) const {
    KernelArgs args;
    args.in[0] = x.view();
    args.in[1] = weight.view();
    if (with_bias) args.in[2] = bias.view();
    args.out[0] = out.view();
    return args;
  }
  Matrix run_kernel(const KernelEntry& kernel, int threads = 1, bool with_bias = true) const {
    Matrix out(x.view().rows, weight.view().rows, DType::kF32, weight.view().rows + 5);
    std::vector<std::byte> packed = pack(kernel, weight);
    KernelArgs a = args(out, with_bias);
    a.in[1].data = packed.data();
    run(kernel, a, threads);
    return out;
  }
};

class LinearTest : public testing::TestWithParam<KernelEntry> {};

TEST_P(LinearTest, AgreesWithTheReferenceAroundPanelAndTileBorders) {
  const KernelEntry& kernel = GetParam();
  for (const int64_t cols : {1, 15, 16, 17, 31, 32, 33, 64, 100}) {
    for (const int64_t rows : {1, 2, 3, 4, 7, 8, 9, 17}) {
      for (const int64_t depth : {1, 16, 33}) {
        const Linear linear(kernel.weight, rows, cols, depth);
        Matrix wanted(rows, cols);
        reference::linear(linear.args(wanted, true));
        const Matrix found = linear.run_kernel(kernel);
        expect_close(found.view(), wanted.view(), 1e-6 * std::sqrt(depth) + 1e-6,
                     std::to_string(rows) + "x" + std::to_string(cols));
      }
    }
  }
}

TEST_P(LinearTest, AgreesWithTheReferenceOnARealRow) {
  const Linear linear(GetParam().weight, 3, 96, 2048);
  Matrix wanted(3, 96);
  reference::linear(linear.args(wanted, false));
  const Matrix found = linear.run_kernel(GetParam(), 2, false);
  // Error of a running sum: about eps * sqrt(K) * |sum|, |sum| about sqrt(K).
  expect_close(found.view(), wanted.view(), 2048 * 0x1p-24 * 0.5, "2048");
}

TEST_P(LinearTest, ARowsBitsDoNotDependOnTheOtherRows) {
  const Linear many(GetParam().weight, 100, 70, 130);
  const Matrix whole = many.run_kernel(GetParam());
  for (const int64_t rows : {1, 2, 3, 5, 8, 13, 63, 64}) {
    for (const int64_t begin : {int64_t{0}, 100 - rows}) {
      Linear few(GetParam().weight, rows, 70, 130);
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t k = 0; k < 130; ++k) {
          reference::set_element(few.x.view(), r, k, many.x.at(begin + r, k));
        }
      }
      const Matrix part = few.run_kernel(GetParam());
      TensorView wanted = whole.view();
      wanted.data = wanted.row<float>(begin);
      wanted.rows = rows;
      expect_same_bits(part.view(), wanted, std::to_string(rows) + " rows");
    }
  }
}

TEST_P(LinearTest, BitsDoNotDependOnThreads) {
  for (const int64_t rows : {1, 64}) {
    for (const int64_t cols : {70, 640}) {
      const Linear linear(GetParam().weight, rows, cols, 65);
      const Matrix one = linear.run_kernel(GetParam(), 1);
      for (const int threads : {2, 3, 5}) {
        const Matrix several = linear.run_kernel(GetParam(), threads);
        expect_same_bits(several.view(), one.view(), std::to_string(threads) + " threads");
      }
    }
  }
}

TEST_P(LinearTest, SlicesOfColumnsAreColumnsOfTheWhole) {
  const Linear whole(GetParam().weight, 5, 100, 77);
  const Matrix wanted = whole.run_kernel(GetParam());
  for (const auto& [begin, end] : {std::pair(0, 33), std::pair(33, 40), std::pair(40, 100)}) {
    Linear slice(GetParam().weight, 5, end - begin, 77);
    for (int64_t n = begin; n < end; ++n) {
      reference::set_element(slice.bias.view(), 0, n - begin, whole.bias.at(0, n));
      for (int64_t k = 0; k < 77; ++k) {
        reference::set_element(slice.weight.view(), n - begin, k, whole.weight.at(n, k));
      }
    }
    const Matrix found = slice.run_kernel(GetParam());
    TensorView columns = wanted.view();
    columns.data = columns.row<float>(0) + begin;
    columns.cols = end - begin;
    expect_same_bits(found.view(), columns, std::to_string(begin));
  }
}

TEST_P(LinearTest, EveryIsaGivesTheSameBits) {
  if (!has_cpu_bits(GetParam())) GTEST_SKIP() << "no CPU kernel: its bits are its device's own";
  const KernelEntry* portable = find_kernel(cpu_kernels(), Op::kLinear, GetParam().weight,
                                            GetParam().activation, Isa::kPortable);
  for (const int64_t rows : {1, 11, 64}) {
    const Linear linear(GetParam().weight, rows, 97, 301);
    expect_same_bits(linear.run_kernel(GetParam()).view(), linear.run_kernel(*portable).view(),
                     GetParam().name);
  }
}

TEST_P(LinearTest, NoRowsAndNoColumnsAreNothingToDo) {
  for (const auto& [rows, cols] : {std::pair(0, 8), std::pair(3, 0), std::pair(0, 0)}) {
    const Linear linear(GetParam().weight, rows, cols, 16);
    linear.run_kernel(GetParam(), 2);
  }
}

TEST_P(LinearTest, WithoutDepthOnlyTheBiasIsLeft) {
  const Linear linear(GetParam().weight, 2, 20, 0);
  const Matrix found = linear.run_kernel(GetParam());
  for (int64_t c = 0; c < 20; ++c) EXPECT_EQ(found.at(1, c), linear.bias.at(0, c));
}

INSTANTIATE_TEST_SUITE_P(Cpu, LinearTest, testing::ValuesIn(kernels_of(Op::kLinear)), kernel_name);

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// Rows rounded before a linear, whole or in ranks' parts, give the same bits as rows that the
// linear rounds itself.
#include <limits>

#include "tests/worker/kernels/weights_case.h"

namespace lockstep {
namespace {

// A matrix of rounded groups, in heap memory of exactly its size.
struct Rounded {
  std::vector<RoundedGroup> groups;
  TensorView view;

  Rounded(int64_t rows, int64_t cols, DType dtype)
      : groups(static_cast<size_t>(rows * groups_of(dtype, cols))),
        view{groups.data(), rows, cols, groups_of(dtype, cols) * kRoundedGroup, dtype} {
    std::memset(groups.data(), 0x55, groups.size() * sizeof(RoundedGroup));
  }
};

void round_columns(const KernelEntry& kernel, const TensorView& x, const Rounded& to, int64_t begin,
                   int64_t end) {
  KernelArgs args;
  args.in[0] = x;
  args.in[0].data = x.row<float>(0) + begin;
  args.in[0].cols = end - begin;
  args.out[0] = to.view;
  args.out[0].data = to.view.rounded_row(0) + begin / kRoundedGroup;
  args.out[0].cols = end - begin;
  run(kernel, args, 2);
}

// Ordinary rows, zeros, small and large numbers, and rows that are not finite.
Matrix odd_rows(int64_t cols) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Matrix x = Matrix::random(10, cols, 8, DType::kF32, cols + 3);
  const float factors[] = {1, 0x1p-130f, 0x1p-98f, 0x1p-62f, 0x1p60f, 0x1p100f, 0};
  for (int64_t r = 0; r < 7; ++r) {
    for (int64_t c = 0; c < cols; ++c) x.view().row<float>(r)[c] *= factors[r];
  }
  x.view().row<float>(7)[cols - 1] = kInfinity;
  x.view().row<float>(8)[cols / 2] = std::nanf("");
  x.view().row<float>(9)[0] = -kInfinity;
  return x;
}

std::vector<KernelEntry> rounding_kernels() {
  const KernelEntry* portable =
      find_kernel(cpu_kernels(), Op::kRoundGroups, DType::kNone, DType::kF32, Isa::kPortable);
  std::vector<KernelEntry> found = kernels_of(Op::kRoundGroups);
  if (found.empty()) found.push_back(*portable);
  return found;
}

TEST(RoundGroupsTest, RoundingAgreesWithTheReferenceByteForByte) {
  for (const KernelEntry& kernel : rounding_kernels()) {
    for (const DType dtype : {DType::kA8, DType::kA8P}) {
      for (const int64_t cols : {1, 15, 31, 32, 33, 64, 100}) {
        const Matrix x = odd_rows(cols);
        const Rounded found(10, cols, dtype), wanted(10, cols, dtype);
        round_columns(kernel, x.view(), found, 0, cols);
        KernelArgs args;
        args.in[0] = x.view();
        args.out[0] = wanted.view;
        reference::kernel(Op::kRoundGroups)(args);
        for (size_t i = 0; i < found.groups.size(); ++i) {
          const RoundedGroup &a = found.groups[i], &b = wanted.groups[i];
          ASSERT_EQ(std::memcmp(&a, &b, sizeof(RoundedGroup)), 0)
              << kernel.name << ", " << cols << " columns, group " << i << ": scales " << a.scale
              << " and " << b.scale;
        }
      }
    }
  }
}

TEST(RoundGroupsTest, PartsOfWholeGroupsHaveTheBytesOfTheWholeRow) {
  for (const KernelEntry& kernel : rounding_kernels()) {
    const Matrix x = odd_rows(150);
    const Rounded whole(10, 150, DType::kA8), parts(10, 150, DType::kA8);
    round_columns(kernel, x.view(), whole, 0, 150);
    for (const auto& [begin, end] : {std::pair(96, 150), std::pair(0, 32), std::pair(32, 96)}) {
      round_columns(kernel, x.view(), parts, begin, end);
    }
    EXPECT_EQ(std::memcmp(whole.groups.data(), parts.groups.data(),
                          whole.groups.size() * sizeof(RoundedGroup)),
              0)
        << kernel.name;
  }
}

class RoundedLinearTest : public testing::TestWithParam<KernelEntry> {
 protected:
  // Expects that the call gives the same bits if its rows are rounded beforehand.
  static void expect_same(KernelArgs args, const std::string& what) {
    const KernelEntry& kernel = GetParam();
    const Matrix wanted(args.out[0].rows, args.out[0].cols);
    args.out[0] = wanted.view();
    run(kernel, args, 2);
    const TensorView x = args.in[0];
    const Rounded rounded(x.rows, x.cols, rounded_rows(kernel.weight));
    for (const KernelEntry& rounding : rounding_kernels()) {
      round_columns(rounding, x, rounded, 0, x.cols);
      const Matrix found(args.out[0].rows, args.out[0].cols);
      args.in[0] = rounded.view;
      args.out[0] = found.view();
      run(kernel, args, 2);
      for (int64_t r = 0; r < found.view().rows; ++r) {
        ASSERT_EQ(std::memcmp(found.view().row<float>(r), wanted.view().row<float>(r),
                              static_cast<size_t>(found.view().cols) * sizeof(float)),
                  0)
            << what << ", row " << r << ", rounded by " << rounding.name;
      }
    }
  }
};

TEST_P(RoundedLinearTest, RoundedRowsGiveTheBitsOfTheLinearThatRounds) {
  for (const int64_t rows : {1, 3, 8, 17, 64}) {
    for (const int64_t depth : {31, 64, 300}) {
      Linear linear(GetParam(), rows, 40, depth);
      if (GetParam().op == Op::kLinear) {
        std::vector<std::byte> packed = linear.weight.pack(GetParam());
        KernelArgs args = linear.args(Matrix(rows, 40));
        args.in[1].data = packed.data();
        expect_same(args, std::to_string(rows) + " rows of " + std::to_string(depth));
        continue;
      }
      std::vector<std::byte> packed = linear.weight.pack(GetParam());
      const size_t each = packed.size();
      packed.resize(2 * each);  // Two experts with the same matrix.
      std::memcpy(packed.data() + each, packed.data(), each);
      Matrix ids(2 * rows, 1, DType::kF32);
      for (int64_t r = 0; r < 2 * rows; ++r) *ids.view().row<int32_t>(r) = r % 3 == 0 ? 1 : 0;
      KernelArgs args;
      args.in[0] = linear.x.view();
      args.in[1] = ids.view();
      args.in[1].dtype = DType::kI32;
      args.in[2] = linear.weight.view();
      args.in[2].rows = 80;
      args.in[2].data = packed.data();
      args.out[0].rows = 2 * rows;
      args.out[0].cols = 40;
      args.attrs = ExpertAttrs{.experts = 2};
      expect_same(args, std::to_string(rows) + " routed rows of " + std::to_string(depth));
    }
  }
}

// expert_linear is left out: its rounded rows have the same layout as those of linear.
class OneMatrixTest : public RoundedLinearTest {};

TEST_P(OneMatrixTest, OnlyRowsThatAreNotFiniteBecomeNan) {
  Linear linear(GetParam(), 10, 33, 100);
  linear.x = odd_rows(100);
  std::vector<std::byte> packed = linear.weight.pack(GetParam());
  KernelArgs args = linear.args(Matrix(10, 33), false);
  args.in[1].data = packed.data();
  expect_same(args, "odd rows");
}

TEST_P(OneMatrixTest, LinearsAgreeWithTheReferenceOfRoundedRows) {
  const Linear linear(GetParam(), 5, 40, 70);
  const Rounded rounded(5, 70, rounded_rows(GetParam().weight));
  round_columns(rounding_kernels()[0], linear.x.view(), rounded, 0, 70);
  const Matrix plain(5, 40), wanted(5, 40);
  KernelArgs args = linear.args(plain);
  reference::kernel(Op::kLinear)(args);
  args.in[0] = rounded.view;
  args.out[0] = wanted.view();
  reference::kernel(Op::kLinear)(args);
  expect_same_bits(wanted.view(), plain.view(), "the reference");
}

std::vector<KernelEntry> takers_of_rounded_rows(std::vector<KernelEntry> found) {
  std::erase_if(found, [](const KernelEntry& entry) { return !entry.takes_rounded; });
  return found;
}

INSTANTIATE_TEST_SUITE_P(Cpu, RoundedLinearTest,
                         testing::ValuesIn(takers_of_rounded_rows(kernels_under_test())),
                         kernel_name);
INSTANTIATE_TEST_SUITE_P(Cpu, OneMatrixTest,
                         testing::ValuesIn(takers_of_rounded_rows(kernels_of(Op::kLinear))),
                         kernel_name);

}  // namespace
}  // namespace lockstep

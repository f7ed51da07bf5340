// SPDX-License-Identifier: Apache-2.0
// gated_linear has the bits of two operators: linear, and then gated on the even and odd columns of
// linear's output. This holds for any number of rows and columns and any blocks.
#include <string>

#include "tests/worker/kernels/cast_matrix.h"
#include "tests/worker/kernels/mma_ways.h"
#include "tests/worker/kernels/weights_case.h"
#include "worker/kernels/cuda/shim/shim.h"

namespace lockstep {
namespace {

constexpr Function kFunctions[] = {Function::kSilu, Function::kGelu, Function::kClamp};

bool on_shim(const KernelEntry& kernel) { return std::string_view(kernel.name).ends_with("_shim"); }
std::vector<KernelEntry> shim_mma_kernels() {
  std::vector<KernelEntry> found = kernels_of(Op::kGatedLinear);
  std::erase_if(found, [](const KernelEntry& kernel) {
    return !on_shim(kernel) || !std::string_view(kernel.name).starts_with("gated_linear_mma_");
  });
  return found;
}

// The linear for the same weights by the same kind of kernel, for instance
// "linear_mma_q8_cuda_shim".
KernelEntry linear_of(const KernelEntry& kernel) {
  for (const KernelEntry& other : kernels_of(Op::kLinear)) {
    if (std::string("gated_") + other.name == kernel.name) return other;
  }
  return {};
}

KernelEntry gated_of(const KernelEntry& kernel) {
  for (const KernelEntry& other : kernels_of(Op::kGated)) {
    if (on_shim(other) == on_shim(kernel)) return other;
  }
  return {};
}

// A gated_linear with `cols` pairs of columns.
struct Case {
  Linear linear;
  Function function = Function::kSilu;
  bool with_bias = true;

  Case(const KernelEntry& kernel, int64_t rows, int64_t cols, int64_t depth)
      : linear(kernel, rows, 2 * cols, depth) {}

  int64_t rows() const { return linear.x.view().rows; }
  int64_t cols() const { return linear.weight.view().rows / 2; }

  Matrix fused(const KernelEntry& kernel, DType type = DType::kF32) const {
    Matrix out(rows(), cols(), type, cols() + 3);
    std::vector<std::byte> packed = linear.weight.pack(kernel);
    KernelArgs args = linear.args(out, with_bias);
    args.in[1].data = packed.data();
    set_function(args);
    run(kernel, args);
    return out;
  }
  // Computes only the first rows.
  Matrix fused_rows(const KernelEntry& kernel, int64_t count) const {
    Matrix out(count, cols());
    std::vector<std::byte> packed = linear.weight.pack(kernel);
    KernelArgs args = linear.args(out, with_bias);
    args.in[0].rows = count;
    args.in[1].data = packed.data();
    set_function(args);
    run(kernel, args);
    return out;
  }
  Matrix apart(const KernelEntry& kernel) const {
    const Matrix product = linear.run_kernel(linear_of(kernel), 1, with_bias);
    Matrix out(rows(), cols());
    const Matrix halves[] = {Matrix(rows(), cols()), Matrix(rows(), cols())};
    for (int64_t r = 0; r < rows(); ++r) {
      for (int64_t c = 0; c < 2 * cols(); ++c) {
        reference::set_element(halves[c % 2].view(), r, c / 2, product.at(r, c));
      }
    }
    KernelArgs args;
    args.in[0] = halves[0].view();
    args.in[1] = halves[1].view();
    args.out[0] = out.view();
    set_function(args);
    run(gated_of(kernel), args);
    return out;
  }
  // The part of a rank that has pairs [begin, end).
  Case slice(const KernelEntry& kernel, int64_t begin, int64_t end) const {
    Case part(kernel, 0, 0, 0);
    part.function = function;
    part.linear.x = linear.x.copy();
    part.linear.weight = linear.weight.slice(2 * begin, 2 * end);
    part.linear.bias = Matrix(1, 2 * (end - begin));
    for (int64_t c = 0; c < 2 * (end - begin); ++c) {
      reference::set_element(part.linear.bias.view(), 0, c, linear.bias.at(0, 2 * begin + c));
    }
    return part;
  }

 private:
  void set_function(KernelArgs& args) const { args.attrs = map_attrs(function); }
};

TensorView first_rows(const Matrix& whole, int64_t rows) {
  TensorView view = whole.view();
  view.rows = rows;
  return view;
}

TensorView columns(const Matrix& whole, int64_t begin, int64_t end) {
  TensorView view = whole.view();
  view.data = view.row<float>(0) + begin;
  view.cols = end - begin;
  return view;
}

class GatedLinearTest : public testing::TestWithParam<KernelEntry> {};
class GatedMmaTest : public testing::TestWithParam<KernelEntry> {};  // Over the shim.

TEST_P(GatedLinearTest, GatedLinearHasTheBitsOfLinearAndGated) {
  int number = 0;
  for (const int64_t cols : {1, 7, 8, 33}) {
    for (const int64_t depth : {40, 200}) {
      Case one(GetParam(), 19, cols, depth);
      one.function = kFunctions[number++ % std::size(kFunctions)];
      for (const bool with_bias : {true, false}) {
        one.with_bias = with_bias;
        expect_same_bits(one.fused(GetParam()).view(), one.apart(GetParam()).view(),
                         std::to_string(cols) + " of depth " + std::to_string(depth));
      }
    }
  }
}

TEST_P(GatedLinearTest, ARowHasTheSameBitsAmongAnyNumberOfOthers) {
  const Case whole(GetParam(), 130, 9, 72);
  const Matrix wanted = whole.apart(GetParam());
  for (int64_t rows = 1; rows <= 130; ++rows) {
    expect_same_bits(whole.fused_rows(GetParam(), rows).view(), first_rows(wanted, rows),
                     std::to_string(rows) + " rows");
  }
}

TEST_P(GatedLinearTest, SlicesOfKAreAddedBeforeTheFunction) {
  for (const int64_t depth : {1100, 9 * 1024 + 40}) {  // 10 slices are more than a block's warps.
    const Case one(GetParam(), 3, 5, depth);
    expect_same_bits(one.fused(GetParam()).view(), one.apart(GetParam()).view(),
                     std::to_string(depth));
  }
}

TEST_P(GatedLinearTest, ARanksColumnsHaveTheBitsOfTheSameColumnsOfTheWhole) {
  const Case whole(GetParam(), 5, 70, 72);
  const Matrix wanted = whole.fused(GetParam());
  for (const auto& [begin, end] : {std::pair(0, 1), {1, 70}, {3, 20}, {31, 65}, {69, 70}}) {
    const Matrix part = whole.slice(GetParam(), begin, end).fused(GetParam());
    expect_same_bits(part.view(), columns(wanted, begin, end),
                     std::to_string(begin) + " to " + std::to_string(end));
  }
}

TEST_P(GatedLinearTest, ARoundedOutputHasTheBitsOfACast) {
  for (const int64_t rows : {4, 80}) {
    const Case one(GetParam(), rows, 21, 64);
    expect_same_bits(one.fused(GetParam(), DType::kBF16).view(),
                     cast_matrix(one.fused(GetParam()).view()).view(), std::to_string(rows));
  }
}

TEST_P(GatedMmaTest, AllBlockShapesGiveTheSameBits) {
  for (const int64_t rows : {3, 70, 131}) {
    const Case one(GetParam(), rows, 75, 300);
    const Matrix wanted = one.apart(GetParam());
    for (const MmaBlocks blocks : {MmaBlocks::kStream8, MmaBlocks::kStream16, MmaBlocks::kStream32,
                                   MmaBlocks::kStream64, MmaBlocks::kTile128}) {
      expect_same_bits(
          one.fused(by(GetParam(), blocks)).view(), wanted.view(),
          std::to_string(static_cast<int>(blocks)) + " of " + std::to_string(rows) + " rows");
    }
  }
}

TEST(GatedRowsTest, RowsForLinearsOverCodesMayBeRoundedBeforehand) {
  for (const KernelEntry& kernel : kernels_of(Op::kGatedLinear)) {
    if (!kernel.takes_bf16) continue;
    Case one(kernel, 20, 13, 77);
    const Matrix wanted = one.fused(kernel);
    one.linear.x = cast_matrix(one.linear.x.view());
    expect_same_bits(one.fused(kernel).view(), wanted.view(), kernel.name);
  }
}

// Weights that are codes are left out: for them the reference rounds input rows to int8, as CPUs
// do, but GPUs do not.
TEST(GatedReferenceTest, KernelsAgreeWithTheReference) {
  for (const KernelEntry& kernel : kernels_of(Op::kGatedLinear)) {
    if (quantization(kernel.weight)) continue;
    const Case one(kernel, 6, 13, 90);
    Matrix wanted(6, 13);
    KernelArgs args = one.linear.args(wanted);
    args.attrs = map_attrs(one.function);
    reference::kernel(Op::kGatedLinear)(args);
    expect_close(one.fused(kernel).view(), wanted.view(), 1e-3, kernel.name);
  }
}

TEST_P(GatedLinearTest, NoRowsOrNoColumnsWriteNothing) {
  EXPECT_TRUE(Case(GetParam(), 0, 4, 32).fused(GetParam()).is_untouched());
  EXPECT_TRUE(Case(GetParam(), 3, 0, 32).fused(GetParam()).is_untouched());
}

INSTANTIATE_TEST_SUITE_P(Cuda, GatedLinearTest, testing::ValuesIn(kernels_of(Op::kGatedLinear)),
                         kernel_name);
INSTANTIATE_TEST_SUITE_P(Shim, GatedMmaTest, testing::ValuesIn(shim_mma_kernels()), kernel_name);

}  // namespace
}  // namespace lockstep

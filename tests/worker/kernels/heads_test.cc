// SPDX-License-Identifier: Apache-2.0
// head_linear, join_heads, head_dot and expand_heads agree with the reference, and have the same
// bits for any rows, threads and instruction sets.
#include "tests/worker/kernels/kernel_case.h"

namespace lockstep {
namespace {

struct Shape {
  int64_t rows, heads, x_dim, in_dim, out_dim;
  bool transposed = false;
};

// Sizes around tiles of rows, vectors and pieces of columns. The last two shapes are those of
// latent attention.
constexpr Shape kShapes[] = {
    {1, 1, 1, 1, 1},     {1, 3, 24, 24, 40},    {5, 3, 24, 24, 65},    {4, 2, 40, 33, 16},
    {9, 5, 17, 17, 130}, {3, 2, 576, 512, 128}, {2, 2, 128, 128, 512},
};

std::vector<Shape> shapes() {
  std::vector<Shape> both;
  for (Shape shape : kShapes) {
    both.push_back(shape);
    shape.transposed = true;
    both.push_back(shape);
  }
  return both;
}

// The operands and the output of one of the four operators, with the sizes of a shape.
struct HeadCase {
  std::vector<Matrix> in;
  Matrix out;
  KernelArgs args;

  HeadCase(Op op, const Shape& s)
      : out(s.rows, s.heads * (op == Op::kJoinHeads ? s.x_dim + s.out_dim : s.out_dim)) {
    const auto add = [&](int64_t rows, int64_t cols, int64_t gap) {
      const auto seed = static_cast<uint32_t>(in.size()) + 1;
      in.push_back(Matrix::random(rows, cols, seed, DType::kF32, cols + gap));
    };
    const int64_t wide = s.heads * (op == Op::kExpandHeads ? 1 : s.x_dim),
                  narrow = s.heads * s.out_dim;
    add(s.rows, wide, 5);
    if (op == Op::kHeadLinear) add(1, s.in_dim * narrow, 0);
    for (int i = 0; op == Op::kHeadDot && i < 2; ++i) add(s.rows, wide, 0);
    if (op == Op::kJoinHeads || op == Op::kHeadDot) add(s.rows, narrow, 1);
    for (size_t i = 0; i < in.size(); ++i) args.in[i] = in[i].view();
    args.out[0] = out.view();
    args.attrs = HeadsAttrs{
        .heads = s.heads, .in_dim = s.in_dim, .out_dim = s.out_dim, .transposed = s.transposed};
  }
};

std::vector<KernelEntry> head_kernels() {
  std::vector<KernelEntry> found;
  for (const Op op : {Op::kHeadLinear, Op::kJoinHeads, Op::kHeadDot, Op::kExpandHeads}) {
    for (const KernelEntry& kernel : kernels_of(op)) found.push_back(kernel);
  }
  return found;
}

class HeadsTest : public testing::TestWithParam<KernelEntry> {
 protected:
  Matrix found(const Shape& shape, int threads, const KernelEntry& kernel) {
    HeadCase call(kernel.op, shape);
    run(kernel, call.args, threads);
    return std::move(call.out);
  }
};

TEST_P(HeadsTest, AgreesWithTheReference) {
  for (const Shape& shape : shapes()) {
    HeadCase wanted(GetParam().op, shape);
    reference::kernel(GetParam().op)(wanted.args);
    expect_close(found(shape, 2, GetParam()).view(), wanted.out.view(), 1e-5, GetParam().name);
  }
}

TEST_P(HeadsTest, EveryIsaGivesTheSameBits) {
  if (!has_cpu_bits(GetParam())) GTEST_SKIP() << "not a CPU kernel: its bits are its device's own";
  for (const Shape& shape : shapes()) {
    expect_same_bits(found(shape, 3, GetParam()).view(),
                     found(shape, 1, portable_of(GetParam())).view(), GetParam().name);
  }
}

TEST_P(HeadsTest, ARowsBitsDoNotDependOnTheOtherRows) {
  for (const bool transposed : {false, true}) {
    const Shape shape = {11, 3, 40, 33, 70, transposed};
    const Matrix together = found(shape, 2, GetParam());
    for (int64_t row = 0; row < shape.rows; ++row) {
      HeadCase call(GetParam().op, shape);
      const auto one_row = [row](TensorView& view) {
        if (view.rows <= 1) return;  // The matrices, or an absent operand.
        view.data = view.row<float>(row);
        view.rows = 1;
      };
      for (TensorView& view : call.args.in) one_row(view);
      one_row(call.args.out[0]);
      run(GetParam(), call.args, 1);
      TensorView one = together.view();
      one.data = one.row<float>(row);
      one.rows = 1;
      expect_same_bits(call.args.out[0], one, GetParam().name);
    }
  }
}

TEST_P(HeadsTest, ARankWithoutHeadsDoesNothing) {
  HeadCase call(GetParam().op, {3, 0, 4, 4, 4});
  run(GetParam(), call.args, 2);
  EXPECT_TRUE(call.out.is_untouched());
}

INSTANTIATE_TEST_SUITE_P(Kernels, HeadsTest, testing::ValuesIn(head_kernels()), kernel_name);

}  // namespace
}  // namespace lockstep

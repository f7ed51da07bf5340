// SPDX-License-Identifier: Apache-2.0
// head_linear and join_heads: values by the reference, bits whatever the rows, threads and
// instruction sets.
#include "tests/worker/kernels/kernel_case.h"

namespace lockstep {
namespace {

struct Shape {
  int64_t rows, heads, x_dim, in_dim, out_dim;
  bool transposed = false;
};

// Around tiles of rows, lanes and pieces of columns, and a head of latent attention.
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

// head_linear's operands, or those of join_heads: x_dim and out_dim columns of each head.
struct HeadCase {
  Matrix x, other, out;
  KernelArgs args;

  HeadCase(Op op, const Shape& s)
      : x(Matrix::random(s.rows, s.heads * s.x_dim, 1, DType::kF32, s.heads * s.x_dim + 5)),
        other(op == Op::kHeadLinear ? Matrix::random(1, s.heads * s.in_dim * s.out_dim, 2)
                                    : Matrix::random(s.rows, s.heads * s.out_dim, 2)),
        out(s.rows, s.heads * (op == Op::kHeadLinear ? s.out_dim : s.x_dim + s.out_dim)) {
    args.in[0] = x.view();
    args.in[1] = other.view();
    args.out[0] = out.view();
    args.attrs.heads = s.heads;
    args.attrs.in_dim = s.in_dim;
    args.attrs.transposed = s.transposed;
  }
};

std::vector<KernelEntry> head_kernels() {
  std::vector<KernelEntry> found = kernels_of(Op::kHeadLinear);
  for (const KernelEntry& kernel : kernels_of(Op::kJoinHeads)) found.push_back(kernel);
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
  if (!has_cpu_bits(GetParam())) GTEST_SKIP() << "no CPU kernel: its bits are its device's own";
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
      for (TensorView* view : {&call.args.in[0], &call.args.in[1], &call.args.out[0]}) {
        if (view->rows == 1) continue;  // The matrices.
        view->data = view->row<float>(row);
        view->rows = 1;
      }
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
}

INSTANTIATE_TEST_SUITE_P(Kernels, HeadsTest, testing::ValuesIn(head_kernels()), kernel_name);

}  // namespace
}  // namespace lockstep

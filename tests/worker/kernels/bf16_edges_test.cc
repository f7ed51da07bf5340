// SPDX-License-Identifier: Apache-2.0
// Values that a GPU's kernels store as bfloat16 for the next kernel. A rounded output has the bits
// of a cast of the float32 output. A quantized linear reads such rows as if it had rounded them
// itself.
#include "operators/schema/schema.h"
#include "tests/worker/kernels/cast_matrix.h"
#include "tests/worker/kernels/weights_case.h"

namespace lockstep {
namespace {

// A call of any operator that may round its output, except operators that have their own tests.
struct Call {
  std::vector<Matrix> in, out;
  KernelArgs args;

  Call(const OperatorSchema& schema, int64_t cols, DType last) {
    for (int i = 0; i < schema.input_count(); ++i) {
      const int64_t rows = is_value(schema.inputs[i].kind) ? 5 : 1;
      in.push_back(Matrix::random(rows, cols, static_cast<uint32_t>(i)));
      args.in[i] = in.back().view();
    }
    for (int i = 0; i < schema.output_count(); ++i) {
      const bool is_last = i + 1 == schema.output_count();
      out.emplace_back(5, cols, is_last ? last : DType::kF32, cols + 3);
      args.out[i] = out.back().view();
    }
    args.attrs = row_attrs(schema.op, cols, Function::kSilu, /*centred=*/true);
  }
};

TEST(RoundedOutputTest, ARoundedOutputHasTheBitsOfACast) {
  int tested = 0;
  for (const KernelEntry& kernel : kernels_under_test()) {
    const OperatorSchema& schema = schema_of(kernel.op);
    const bool own = kernel.op == Op::kEmbed || kernel.op == Op::kGatedLinear;
    if (!schema.may_round() || schema.state != StateKind::kNone || own) continue;
    for (const int64_t cols : {1, 33, 600}) {
      Call exact(schema, cols, DType::kF32), rounding(schema, cols, DType::kBF16);
      run(kernel, exact.args);
      run(kernel, rounding.args);
      for (size_t i = 0; i + 1 < exact.out.size(); ++i) {
        expect_same_bits(rounding.out[i].view(), exact.out[i].view(), kernel.name);
      }
      const Matrix wanted = cast_matrix(exact.out.back().view());
      expect_same_bits(rounding.out.back().view(), wanted.view(), kernel.name);
    }
    ++tested;
  }
  EXPECT_GE(tested, 9);
}

TEST(RoundedOutputTest, ARoundedEmbeddingHasTheBitsOfACast) {
  const int32_t tokens[] = {3, -1, 19, 40}, positions[] = {0, 1, 2, 3};
  const Matrix given = Matrix::random(1, 33, 9);
  for (const KernelEntry& kernel : kernels_of(Op::kEmbed)) {
    const Weights weight = Weights::random(20, 33, 1, kernel.weight);
    std::vector<std::byte> packed = weight.pack(kernel);
    StepView step;
    step.rows = 4;
    step.tokens = tokens;
    step.positions = positions;
    step.embeddings = given.view().row<float>(0);
    KernelArgs args;
    args.in[0] = weight.view();
    args.in[0].data = packed.data();
    args.attrs = EmbedAttrs{};
    args.step = &step;
    const Matrix exact(4, 33), found(4, 33, DType::kBF16);
    args.out[0] = exact.view();
    run(kernel, args);
    args.out[0] = found.view();
    run(kernel, args);
    expect_same_bits(found.view(), cast_matrix(exact.view()).view(), kernel.name);
  }
}

TEST(RoundedRowsTest, RoundedRowsGiveALinearOverCodesTheSameBits) {
  int tested = 0;
  for (const KernelEntry& kernel : kernels_of(Op::kLinear)) {
    if (!kernel.takes_bf16) continue;
    for (const int64_t depth : {64, 77, 1100}) {
      for (const int64_t rows : {1, 20}) {
        Linear linear(kernel, rows, 40, depth);
        const Matrix wanted = linear.run_kernel(kernel);
        linear.x = cast_matrix(linear.x.view());
        expect_same_bits(linear.run_kernel(kernel).view(), wanted.view(), kernel.name);
      }
    }
    ++tested;
  }
  EXPECT_GE(tested, 8);  // Four types of codes, each with and without tensor cores.
}

}  // namespace
}  // namespace lockstep

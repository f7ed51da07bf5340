// SPDX-License-Identifier: Apache-2.0
// Operators that compute every row separately: norms, rotary embedding, element-wise ones, copies.
#include <set>

#include "base/numbers/math.h"
#include "operators/schema/schema.h"
#include "tests/worker/kernels/weights_case.h"

namespace lockstep {
namespace {

constexpr int64_t kHeadDims[] = {8, 16, 32, 64, 80, 128};
const int64_t kWidths[] = {1, 15, 16, 17, 31, 32, 33, 64, 2048};

int inputs_of(Op op) { return schema_of(op).input_count(); }

bool is_weight(Op op, int input) {
  const OperandKind kind = schema_of(op).inputs[input].kind;
  return kind == OperandKind::kNorm || kind == OperandKind::kBias;
}

// The input of decay is softplus's output; large negative numbers would give large, less exact
// results.
void make_positive(const Matrix& x) {
  for (int64_t r = 0; r < x.view().rows; ++r) {
    for (int64_t c = 0; c < x.view().cols; ++c) {
      reference::set_element(x.view(), r, c, std::abs(x.at(r, c)));
    }
  }
}

// One call of an operator whose output has the shape of its first input.
struct RowCase {
  std::vector<Matrix> in;
  std::vector<Matrix> out;
  KernelArgs args;

  // A case with one weight for all heads.
  RowCase(Op op, int64_t rows, int64_t cols, int64_t head_dim = 0,
          Function function = Function::kSilu)
      : RowCase(op, rows, cols, head_dim, head_dim, function) {}

  RowCase(Op op, int64_t rows, int64_t cols, int64_t head_dim, int64_t weight_cols,
          Function function) {
    for (int i = 0; i < inputs_of(op); ++i) {
      const bool weight = is_weight(op, i);
      const int64_t width = weight && op == Op::kHeadNorm ? weight_cols : cols;
      in.push_back(Matrix::random(weight ? 1 : rows, width, static_cast<uint32_t>(i), DType::kF32,
                                  weight ? width : width + 2));
      args.in[i] = in.back().view();
    }
    if (op == Op::kDecay) make_positive(in[0]);
    const DType type = op == Op::kCast ? DType::kBF16 : DType::kF32;
    for (int i = 0; i < (op == Op::kAddNorm ? 2 : 1); ++i) {
      out.emplace_back(rows, cols, type, cols + 1);
      args.out[i] = out.back().view();
    }
    args.attrs = row_attrs(op, head_dim, function);
  }

  // A case with the same inputs and other outputs.
  RowCase again(Op op) const {
    const int64_t head_dim = op == Op::kHeadNorm ? args.attrs.norm().head_dim : 0;
    RowCase other(op, args.in[0].rows, args.in[0].cols, head_dim, args.in[1].cols, Function::kSilu);
    other.args.attrs = args.attrs;
    return other;
  }
};

// True if RowCase can call the operator: it computes each row separately, and treats all columns
// alike.
bool by_rows(Op op) {
  const OperatorSchema& schema = schema_of(op);
  return schema.run_by == RunBy::kKernel && schema.rows == RowRule::kSame &&
         schema.columns <= ColumnRule::kAlike && schema.output_types != OutputTypes::kRounded;
}

TEST(KernelTestsTest, EveryOperatorWithAKernelHasTests) {
  // Operators that RowCase cannot call have their own tests, here or in files of their name.
  const std::set<Op> own = {
      Op::kEmbed,         Op::kLinear,       Op::kRopeTable,     Op::kRope,
      Op::kPositionScale, Op::kAttention,    Op::kTopCandidates, Op::kSelectRows,
      Op::kRoute,         Op::kExpertLinear, Op::kCombine,       Op::kConv,
      Op::kDeltaRule,     Op::kHeadLinear,   Op::kJoinHeads,     Op::kBroadcast,
      Op::kShift,         Op::kRecurrence,   Op::kHeadDot,       Op::kWkv,
      Op::kExpandHeads,   Op::kRoundGroups,  Op::kExpertScale,   Op::kRopeAttention,
      Op::kGatedLinear};
  for (int i = 1; i < kOpCount; ++i) {
    const Op op = static_cast<Op>(i);
    if (schema_of(op).run_by != RunBy::kKernel) continue;
    EXPECT_TRUE(by_rows(op) || own.contains(op))
        << op_name(op) << ": write its tests, and add it here";
  }
}

std::vector<KernelEntry> row_kernels() {
  std::vector<KernelEntry> found;
  for (const KernelEntry& entry : kernels_under_test()) {
    if (by_rows(entry.op)) found.push_back(entry);
  }
  return found;
}

class RowKernelTest : public testing::TestWithParam<KernelEntry> {
 protected:
  // Calls f with a case of every shape.
  template <typename F>
  void for_every_shape(const F& f) {
    for (const int64_t rows : {0, 1, 3, 50}) {
      if (GetParam().op == Op::kHeadNorm) {
        for (const int64_t dim : kHeadDims) {
          for (const int64_t weight : {dim, 3 * dim}) {
            RowCase heads(GetParam().op, rows, 3 * dim, dim, weight, Function::kNone);
            f(heads.again(GetParam().op));
            heads.args.attrs.norm().centred = true;
            f(heads.again(GetParam().op));
          }
        }
      } else if (schema_of(GetParam().op).attrs == AttrsKind::kMap) {
        for (int i = 1; i < kFunctionCount; ++i) {
          for (const int64_t cols : {1, 15, 17, 2048}) {
            f(RowCase(GetParam().op, rows, cols, 0, static_cast<Function>(i)));
          }
        }
      } else {
        for (const int64_t cols : kWidths) f(RowCase(GetParam().op, rows, cols));
      }
    }
  }
};

TEST_P(RowKernelTest, AgreesWithTheReference) {
  for_every_shape([&](RowCase found) {
    RowCase wanted = found.again(GetParam().op);
    reference::kernel(GetParam().op)(wanted.args);
    run(GetParam(), found.args);
    for (size_t i = 0; i < found.out.size(); ++i) {
      expect_close(found.out[i].view(), wanted.out[i].view(), 2e-6, GetParam().name);
    }
  });
}

TEST_P(RowKernelTest, BitsDependNeitherOnIsaNorOnThreads) {
  for_every_shape([&](RowCase one) {
    RowCase other = one.again(GetParam().op);
    run(GetParam(), one.args, 1);
    run(portable_of(GetParam()), other.args, 3);
    for (size_t i = 0; i < one.out.size(); ++i) {
      expect_same_bits(one.out[i].view(), other.out[i].view(), GetParam().name);
    }
  });
}

TEST_P(RowKernelTest, ARowsBitsDoNotDependOnTheOtherRows) {
  const int64_t dim = GetParam().op == Op::kHeadNorm ? 64 : 0;
  RowCase whole(GetParam().op, 64, 192, dim), part(GetParam().op, 64, 192, dim);
  run(GetParam(), whole.args, 2);
  for (int64_t row = 0; row < 64; ++row) {
    KernelArgs args = part.args;
    for (int i = 0; i < inputs_of(GetParam().op); ++i) {
      if (args.in[i].rows == 1) continue;
      args.in[i].data = part.args.in[i].row<float>(row);
      args.in[i].rows = 1;
    }
    for (size_t i = 0; i < part.out.size(); ++i) {
      args.out[i].data = part.args.out[i].row<std::byte>(0) +
                         row * args.out[i].stride * dtype_bytes(args.out[i].dtype);
      args.out[i].rows = 1;
    }
    run(GetParam(), args);
  }
  for (size_t i = 0; i < part.out.size(); ++i) {
    expect_same_bits(part.out[i].view(), whole.out[i].view(), GetParam().name);
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, RowKernelTest, testing::ValuesIn(row_kernels()), kernel_name);

TEST_P(RowKernelTest, AnOperatorWorksInPlaceIfItsSchemaSaysSo) {
  const Op op = GetParam().op;
  if (!schema_of(op).in_place) GTEST_SKIP() << op_name(op) << " does not work in place";
  for (const int64_t cols : {int64_t{48}, int64_t{96}, int64_t{2064}}) {
    RowCase apart(op, 3, cols, 48), inside(op, 3, cols, 48);
    run(GetParam(), apart.args);
    inside.args.out[0] = inside.args.in[0];
    run(GetParam(), inside.args);
    expect_same_bits(inside.in[0].view(), apart.out[0].view(), GetParam().name);
  }
}

TEST_P(RowKernelTest, OptionalOperandsMayBeAbsent) {
  const OperatorSchema& schema = schema_of(GetParam().op);
  if (schema.required_count() == schema.input_count()) GTEST_SKIP() << "none is optional";
  // One head, whose norm has a bias only if it is centred.
  for (int given = schema.required_count(); given < schema.input_count(); ++given) {
    for (const bool centred : {true, false}) {
      RowCase found(GetParam().op, 3, 37, 37), wanted(GetParam().op, 3, 37, 37);
      found.args.attrs = wanted.args.attrs = row_attrs(GetParam().op, 37, Function::kSilu, centred);
      for (int i = given; i < schema.input_count(); ++i) {
        found.args.in[i] = wanted.args.in[i] = {};
      }
      reference::kernel(GetParam().op)(wanted.args);
      run(GetParam(), found.args);
      expect_close(found.out[0].view(), wanted.out[0].view(), 2e-6, GetParam().name);
    }
  }
}

TEST(BroadcastTest, BroadcastGivesEveryRowTheWeight) {
  for (const KernelEntry& kernel : kernels_of(Op::kBroadcast)) {
    for (const int64_t cols : kWidths) {
      const Matrix weight = Matrix::random(1, cols, 1);
      Matrix out(5, cols, DType::kF32, cols + 3);
      KernelArgs args;
      args.in[0] = weight.view();
      args.out[0] = out.view();
      run(kernel, args, 2);
      for (int64_t r = 0; r < 5; ++r) {
        for (int64_t c = 0; c < cols; ++c) ASSERT_EQ(out.at(r, c), weight.at(0, c)) << kernel.name;
      }
    }
  }
}

struct RopeCase {
  Matrix x, table, out;
  KernelArgs args;

  RopeCase(int64_t dim, int64_t rotary, bool interleaved, int64_t offset = 0)
      : x(Matrix::random(5, 3 * dim, 1, DType::kF32, 3 * dim + 1)),
        table(Matrix::random(5, rotary, 2)),
        out(5, 3 * dim) {
    args.in[0] = x.view();
    args.in[1] = table.view();
    args.out[0] = out.view();
    args.attrs = RopeAttrs{
        .head_dim = dim, .rotary_dim = rotary, .offset = offset, .interleaved = interleaved};
  }
};

TEST(RopeTest, RopeAgreesWithTheReferenceOnEveryIsaAndInPlace) {
  for (const int64_t dim : kHeadDims) {
    for (const int64_t rotary : {dim, dim / 2, dim / 4}) {
      for (const bool interleaved : {false, true}) {
        const int64_t offset = (dim - rotary) / 3;
        RopeCase wanted(dim, rotary, interleaved, offset), first(dim, rotary, interleaved, offset);
        reference::kernel(Op::kRope)(wanted.args);
        run(kernels_of(Op::kRope).back(), first.args);
        expect_close(first.out.view(), wanted.out.view(), 1e-6, "rope");
        for (const KernelEntry& kernel : kernels_of(Op::kRope)) {
          RopeCase apart(dim, rotary, interleaved, offset);
          RopeCase inside(dim, rotary, interleaved, offset);
          run(kernel, apart.args, 2);
          expect_same_bits(apart.out.view(), first.out.view(), kernel.name);
          inside.args.out[0] = inside.x.view();
          run(kernel, inside.args);
          expect_same_bits(inside.x.view(), first.out.view(), kernel.name);
        }
      }
    }
  }
}

TEST(EmbedTest, PackingKeepsRowsPlain) {
  for (const KernelEntry& kernel : kernels_of(Op::kEmbed)) {
    if (quantization(kernel.weight)) continue;  // quantized_test.cc covers these.
    const Matrix source = Matrix::random(40, 5, 3, kernel.weight);
    std::vector<float> floats;
    for (int64_t i = 0; i < 200; ++i) floats.push_back(source.at(i / 5, i % 5));
    Matrix packed(40, 5, kernel.weight);
    ASSERT_EQ(kernel.packed_bytes(40, 5), 200 * dtype_bytes(kernel.weight));
    kernel.pack({floats.data(), 5, {}, 40, 5, 0, 32, packed.view().data});
    kernel.pack({floats.data() + 160, 5, {}, 40, 5, 32, 40, packed.view().data});
    expect_same_bits(packed.view(), source.view(), kernel.name);
  }
}

TEST(SelectRowsTest, SelectRowsCopiesTheRequestedRows) {
  const int32_t rows[] = {0, 2, 6};
  OutputSpec requests[3];
  StepView step;
  step.output_rows = rows;
  step.outputs = requests;
  step.output_count = 3;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Matrix x = Matrix::random(7, 19, 1, dtype, 23);
    for (const KernelEntry& kernel : kernels_of(Op::kSelectRows)) {
      Matrix found(3, 19, dtype), wanted(3, 19, dtype);
      KernelArgs args;
      args.in[0] = x.view();
      args.step = &step;
      args.out[0] = wanted.view();
      reference::kernel(Op::kSelectRows)(args);
      args.out[0] = found.view();
      run(kernel, args, 2);
      expect_same_bits(found.view(), wanted.view(), kernel.name);
    }
  }
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// The schemas of operators, and the page that is generated from them.
#include "operators/schema/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "tests/support/files/written_page.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

OperandShape shape(int64_t cols, DType dtype = DType::kF32, int64_t rows = 1) {
  return {.rows = rows, .cols = cols, .dtype = dtype, .present = true};
}

TEST(SchemaTest, EveryOperatorHasASchemaWithAFormula) {
  for (int i = 1; i < kOpCount; ++i) {
    const OperatorSchema& schema = schema_of(static_cast<Op>(i));
    EXPECT_EQ(schema.op, static_cast<Op>(i));
    EXPECT_NE(schema.formula, nullptr) << op_name(schema.op);
    EXPECT_LE(schema.required_count(), schema.input_count()) << op_name(schema.op);
  }
}

TEST(SchemaTest, EachRowOfThePageHasTheCellsOfItsTable) {
  std::istringstream page(operators_page());
  size_t wanted = 0;
  for (std::string line; std::getline(page, line);) {
    size_t bars = 0;
    for (size_t i = 0; i < line.size(); ++i)
      bars += line[i] == '|' && (i == 0 || line[i - 1] != '\\');
    if (wanted == 0 || bars == 0) wanted = bars;  // A line without bars ends a table.
    EXPECT_EQ(bars, wanted) << line;
  }
}

TEST(SchemaTest, ANumberWithoutAnOperatorHasAnEmptySchema) {
  EXPECT_EQ(schema_of(Op::kNone).op, Op::kNone);
  EXPECT_EQ(schema_of(static_cast<Op>(255)).op, Op::kNone);
}

TEST(SchemaTest, OperandsAreCountedByKind) {
  const OperatorSchema& linear = schema_of(Op::kLinear);
  EXPECT_EQ(linear.input_count(), 3);
  EXPECT_EQ(linear.required_count(), 2);
  EXPECT_EQ(linear.value_count(), 1);
  EXPECT_EQ(linear.output_count(), 1);
  EXPECT_EQ(schema_of(Op::kAddNorm).output_count(), 2);
  EXPECT_EQ(schema_of(Op::kTopCandidates).output_count(), 0);
}

TEST(SchemaTest, AProblemNamesWhatMustBeAndWhatWasFound) {
  OperatorCall call;
  call.in = {shape(8), shape(8, DType::kF32, 4), shape(5)};
  call.out = {shape(4)};
  EXPECT_EQ(check_call(schema_of(Op::kLinear), call), "columns of the bias must be 4, found 5");
  call.in[2] = {};
  EXPECT_EQ(check_call(schema_of(Op::kLinear), call), "");
  call.in[0].dtype = DType::kBF16;
  EXPECT_THAT(check_call(schema_of(Op::kLinear), call), HasSubstr("bfloat16 input"));
}

TEST(SchemaTest, OnlyTheLastOutputOfOperatorsThatMayRoundMayBeBFloat16) {
  OperatorCall norm{.in = {shape(8), shape(8), shape(8)},
                    .out = {shape(8), shape(8, DType::kBF16)},
                    .attrs = NormAttrs{.eps = 1e-5f}};
  EXPECT_EQ(check_call(schema_of(Op::kAddNorm), norm), "");
  std::swap(norm.out[0], norm.out[1]);
  EXPECT_EQ(check_call(schema_of(Op::kAddNorm), norm),
            "dtype of an output must be float32, found bfloat16");
  norm.out = {shape(8, DType::kF16)};
  EXPECT_EQ(check_call(schema_of(Op::kRmsNorm), norm),
            "dtype of an output must be float32, found float16");
  OperatorCall rope{
      .in = {shape(8), shape(4)}, .out = {shape(8, DType::kBF16)}, .attrs = RopeAttrs{}};
  EXPECT_EQ(check_call(schema_of(Op::kRope), rope),
            "dtype of an output must be float32, found bfloat16");
}

TEST(SchemaTest, RopeAttentionIsCheckedAsRopeAndAsAttention) {
  const OperatorSchema& schema = schema_of(Op::kRopeAttention);
  const int32_t map[] = {0, 0};
  OperatorCall call{.in = {shape(8), shape(4), shape(4), shape(4), shape(2)}, .out = {shape(8)}};
  call.attrs =
      AttentionAttrs{.heads = 2, .kv_heads = 1, .head_dim = 4, .v_dim = 4, .kv_head_of = {map, 2}};
  EXPECT_THAT(check_call(schema, call), HasSubstr("rotary_dim must be 2 to 4, found 0"));
  call.attrs.attention().rotary_dim = 4;
  EXPECT_EQ(check_call(schema, call), "");
  call.in[4] = shape(3);
  EXPECT_EQ(check_call(schema, call), "columns of sinks must be 2, found 3");
  call.in[4] = {};
  call.in[3] = shape(6);
  EXPECT_EQ(check_call(schema, call), "columns of the table must be 4, found 6");
  call.in[3] = shape(4);
  call.attrs.attention().read_only = true;
  EXPECT_EQ(check_call(schema, call), "read_only must not be set");
}

TEST(SchemaTest, AGatedLinearHasTwoWeightRowsForEachColumn) {
  const OperatorSchema& schema = schema_of(Op::kGatedLinear);
  OperatorCall call{.in = {shape(8, DType::kBF16), shape(8, DType::kBF16), shape(6)},
                    .out = {shape(3, DType::kBF16)},
                    .attrs = MapAttrs{}};
  call.in[1].rows = 6;
  EXPECT_THAT(check_call(schema, call), HasSubstr("function must be 1 to"));
  call.attrs.map().function = Function::kSilu;
  EXPECT_EQ(check_call(schema, call), "");
  call.out[0] = shape(3);
  EXPECT_EQ(check_call(schema, call), "");
  call.in[1].rows = 7;
  call.in[2].cols = 7;
  EXPECT_EQ(check_call(schema, call), "rows of the weight must be 6, found 7");
  call.in[1].rows = 6;
  EXPECT_EQ(check_call(schema, call), "columns of the bias must be 6, found 7");
}

TEST(SchemaTest, AttributesOutOfRangeAreFoundBeforeTheyAreUsed) {
  OperatorCall call{.in = {shape(8), shape(4)}, .out = {shape(8)}};
  call.attrs = NormAttrs{.eps = 1e-5f, .head_dim = 0};  // head_dim is a divisor.
  EXPECT_THAT(check_call(schema_of(Op::kHeadNorm), call), HasSubstr("head_dim must be 1 to"));
  call.attrs.norm().head_dim = 4;
  EXPECT_EQ(check_call(schema_of(Op::kHeadNorm), call), "");
  call.attrs.norm().eps = NAN;
  EXPECT_THAT(check_call(schema_of(Op::kHeadNorm), call), HasSubstr("eps must be a finite number"));
}

TEST(SchemaTest, HeadNormWeightsAreSharedByAllHeadsOrSeparateForEachHead) {
  const OperatorSchema& head_norm = schema_of(Op::kHeadNorm);
  OperatorCall call{.in = {shape(8), shape(8)}, .out = {shape(8)}};
  call.attrs = NormAttrs{.eps = 1e-5f, .head_dim = 4, .centred = true};
  EXPECT_EQ(check_call(head_norm, call), "");
  call.in[2] = shape(4);
  EXPECT_EQ(check_call(head_norm, call), "columns of the bias must be 8, found 4");
  call.in[2] = shape(8);
  EXPECT_EQ(check_call(head_norm, call), "");
  call.attrs.norm().centred = false;
  EXPECT_EQ(check_call(head_norm, call), "a bias is for centred heads only");
  call.in[2] = {};
  call.in[1] = shape(6);
  EXPECT_EQ(check_call(head_norm, call), "columns of the weight must be 4, found 6");
}

TEST(SchemaTest, PositionScalesAreCheckedBeforeTheyAreRead) {
  const OperatorSchema& schema = schema_of(Op::kPositionScale);
  const float scales[] = {1, NAN};
  OperatorCall call{.in = {shape(8)}, .out = {shape(8)}, .attrs = PositionScaleAttrs{}};
  EXPECT_THAT(check_call(schema, call), HasSubstr("length must be 1 to"));  // length is a divisor.
  call.attrs.position_scale().length = 10;
  EXPECT_THAT(check_call(schema, call), HasSubstr("scales count must be 1 to"));
  call.attrs.position_scale().scales = {scales, 1};
  EXPECT_EQ(check_call(schema, call), "");
  call.attrs.position_scale().scales = {scales, 2};
  EXPECT_THAT(check_call(schema, call), HasSubstr("scales must be a finite number"));
}

TEST(SchemaTest, ValuesOfRoutesCombineOnlyWithEachOther) {
  const int routes[] = {2, 2}, mixed[] = {2, kTokenRows}, one[] = {2}, tokens[] = {kTokenRows};
  const OperatorSchema& mul = schema_of(Op::kMul);
  EXPECT_EQ(check_row_rule(mul, routes, one), "");
  EXPECT_NE(check_row_rule(mul, mixed, one), "");
  EXPECT_NE(check_row_rule(mul, routes, tokens), "");
  EXPECT_NE(check_row_rule(schema_of(Op::kAttention), routes, one), "");
  const int outputs[] = {kOutputRows};
  EXPECT_EQ(check_row_rule(schema_of(Op::kSelectRows), tokens, outputs), "");
  EXPECT_NE(check_row_rule(schema_of(Op::kSelectRows), tokens, tokens), "");
}

OperandShape routed(int64_t cols, int64_t rows_each, DType dtype = DType::kF32) {
  return {.cols = cols, .dtype = dtype, .present = true, .rows_each = rows_each};
}

TEST(SchemaTest, OperandsOfRoutesMustAgreeInRowsPerToken) {
  const OperandShape matrix = {
      .rows = 20, .cols = 8, .dtype = DType::kF32, .present = true, .matrices = 4};
  OperatorCall call{.in = {routed(8, 1), routed(1, 3, DType::kI32), matrix}, .out = {routed(5, 3)}};
  call.attrs = ExpertAttrs{.experts = 4};
  const OperatorSchema& experts = schema_of(Op::kExpertLinear);
  EXPECT_EQ(check_call(experts, call), "");
  call.in[0].rows_each = 3;
  EXPECT_EQ(check_call(experts, call), "");
  call.in[0].rows_each = 2;
  EXPECT_THAT(check_call(experts, call), HasSubstr("rows of x for each token must be 1, found 2"));
  call.in[0].rows_each = 0;  // 0: the row domain of outputs.
  EXPECT_THAT(check_call(experts, call), HasSubstr("rows of x for each token must be 1, found 0"));
  call.in[0].rows_each = 1;
  call.out[0].rows_each = 1;
  EXPECT_THAT(check_call(experts, call), HasSubstr("rows of the output for each token must be 3"));
  OperatorCall sum{.in = {routed(8, 3), routed(1, 2)}, .out = {routed(8, 1)}};
  EXPECT_THAT(check_call(schema_of(Op::kCombine), sum), HasSubstr("weights for each token"));
  sum.in[1].rows_each = 3;
  EXPECT_EQ(check_call(schema_of(Op::kCombine), sum), "");
}

TEST(SchemaTest, AnOperatorMultipliesIfItHasAWeightMatrix) {
  EXPECT_TRUE(schema_of(Op::kLinear).multiplies());
  EXPECT_TRUE(schema_of(Op::kExpertLinear).multiplies());
  EXPECT_FALSE(schema_of(Op::kEmbed).multiplies());
  EXPECT_FALSE(schema_of(Op::kRoute).multiplies());
}

TEST(SchemaTest, TheOperatorsPageIsGeneratedFromTheSchemas) {
  expect_page("operators.md", operators_page());
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// The rows of operators, and the page that is written from them.
#include "operators/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace lockstep {
namespace {

using ::testing::HasSubstr;

OperandShape shape(int64_t cols, DType dtype = DType::kF32, int64_t rows = 1) {
  return {.rows = rows, .cols = cols, .dtype = dtype, .present = true};
}

TEST(SchemaTest, EveryRowStandsAtItsOperatorAndSaysWhatItComputes) {
  for (int i = 1; i < kOpCount; ++i) {
    const OperatorSchema& schema = schema_of(static_cast<Op>(i));
    EXPECT_EQ(schema.op, static_cast<Op>(i));
    EXPECT_NE(schema.formula, nullptr) << op_name(schema.op);
    EXPECT_LE(schema.required_count(), schema.input_count()) << op_name(schema.op);
  }
}

TEST(SchemaTest, NumbersThatAreNoOperatorHaveAnEmptyRow) {
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

TEST(SchemaTest, AttributesOutOfRangeAreFoundBeforeWhatReliesOnThem) {
  OperatorCall call{.in = {shape(8), shape(4)}, .out = {shape(8)}};
  call.attrs = {.eps = 1e-5f, .head_dim = 0};  // Would be divided by.
  EXPECT_THAT(check_call(schema_of(Op::kHeadNorm), call), HasSubstr("head_dim must be 1 to"));
  call.attrs.head_dim = 4;
  EXPECT_EQ(check_call(schema_of(Op::kHeadNorm), call), "");
  call.attrs.eps = NAN;
  EXPECT_THAT(check_call(schema_of(Op::kHeadNorm), call), HasSubstr("eps must be a finite number"));
}

TEST(SchemaTest, ValuesOfAThirdRowDomainGoTogetherOnlyWithTheirOwn) {
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

// LOCKSTEP_REWRITE=1 writes the page instead.
TEST(SchemaTest, ThePageOfOperatorsIsWrittenFromTheRows) {
  const std::string path = std::string(LOCKSTEP_SOURCE_DIR) + "/docs/operators.md";
  if (std::getenv("LOCKSTEP_REWRITE") != nullptr) std::ofstream(path) << operators_page();
  std::stringstream page;
  page << std::ifstream(path).rdbuf();
  EXPECT_EQ(page.str(), operators_page()) << "run this test with LOCKSTEP_REWRITE=1";
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// Recipes whose pieces do not make the weight, as an untrusted program may contain them.
#include "checkpoint/recipe.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using testing::HasSubstr;

program::Weight weight(const std::string& text) {
  program::Weight parsed;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &parsed)) << text;
  return parsed;
}

std::string problem(const std::string& text) { return message_of(check_recipe(weight(text))); }

TEST(RecipeTest, PiecesMustMakeTheWholeWeight) {
  const std::string head = "name: 'w' role: LINEAR_WEIGHT rows: 5 cols: 4 ";
  const std::string three =
      "pieces { source: 'a' source_shape: [9, 4] row_begin: 2 row_end: 5 col_end: 4 }";
  const std::string two =
      "pieces { source: 'b' source_shape: [4, 9] row_end: 4 col_end: 2 transpose: true }";
  EXPECT_EQ(problem(head + three + two), "");
  EXPECT_THAT(problem(head + three), HasSubstr("asks for [5, 4], its pieces make 3 rows"));
  EXPECT_THAT(problem(head + three + three), HasSubstr("pieces make 6 rows"));
  EXPECT_THAT(problem(head + "pieces { source: 'a' source_shape: [9, 4] row_end: 5 col_end: 3 }"),
              HasSubstr("the piece of a is [5, 3] and does not fit a weight [5, 4]"));
}

TEST(RecipeTest, PiecesOfBiasesAndNormsAreSideBySide) {
  const std::string pieces =
      "pieces { source: 'a' source_shape: 9 row_end: 1 col_begin: 2 col_end: 5 }"
      "pieces { source: 'b' source_shape: 9 row_end: 1 col_end: 2 }";
  EXPECT_EQ(problem("role: BIAS rows: 1 cols: 5 " + pieces), "");
  EXPECT_EQ(problem("role: NORM rows: 1 cols: 5 " + pieces), "");
  EXPECT_THAT(problem("role: BIAS rows: 1 cols: 6 " + pieces), HasSubstr("make 5 columns"));
  EXPECT_THAT(problem("role: LINEAR_WEIGHT rows: 2 cols: 5 " + pieces), HasSubstr("does not fit"));
}

TEST(RecipeTest, RectanglesMustBeInsideTheirSource) {
  for (const char* bad : {"row_end: 10 col_end: 4", "row_begin: 6 row_end: 5 col_end: 4",
                          "row_begin: -1 row_end: 4 col_end: 4",
                          "row_end: 5 col_begin: 1 col_end: 5", "row_end: -5 col_end: 4"}) {
    EXPECT_THAT(problem(std::string("rows: 5 cols: 4 pieces { source: 'a' source_shape: [9, 4] ") +
                        bad + "}"),
                HasSubstr("a: the program asks for rows"))
        << bad;
  }
}

TEST(RecipeTest, NumbersThatOverflowAreRefused) {
  EXPECT_THAT(problem("rows: 1 cols: 1 pieces { source: 'a' source_shape: [-1, 4] }"),
              HasSubstr("a shape that no tensor has"));
  EXPECT_THAT(problem("rows: 1 cols: 1 pieces { source: 'a' source_shape: [4294967296, "
                      "4294967296] }"),
              HasSubstr("a shape that no tensor has"));
  EXPECT_THAT(problem("rows: 4294967296 cols: 4294967296"), HasSubstr("no weight has that shape"));
  EXPECT_THAT(problem("rows: -1 cols: 2"), HasSubstr("no weight has that shape"));
}

TEST(RecipeTest, AWeightOfNoRowsMayHaveNoPieces) {
  EXPECT_EQ(problem("role: LINEAR_WEIGHT rows: 0 cols: 4"), "");
  EXPECT_EQ(problem("role: LINEAR_WEIGHT rows: 0 cols: 4 pieces { source: 'a' source_shape: [9, 4] "
                    "row_begin: 9 row_end: 9 col_end: 4 }"),
            "");
  EXPECT_TRUE(parts_of(weight("rows: 0 cols: 4"), 0, 0).empty());
}

TEST(RecipeTest, PairedRowsMustBeEvenInNumber) {
  const std::string pieces = "pieces { source: 'a' source_shape: [9, 4] row_end: 5 col_end: 4 }";
  EXPECT_THAT(problem("role: LINEAR_WEIGHT rows: 5 cols: 4 paired: true " + pieces),
              HasSubstr("asks for pairs of rows, found 5"));
}

TEST(RecipeTest, PartsAreThePiecesWithinTheRows) {
  const program::Weight w = weight(
      "role: LINEAR_WEIGHT rows: 6 cols: 4 "
      "pieces { source: 'a' source_shape: [9, 4] row_begin: 2 row_end: 4 col_end: 4 }"
      "pieces { source: 'b' source_shape: [4, 9] row_end: 4 col_begin: 5 col_end: 9 "
      "transpose: true }");
  ASSERT_TRUE(check_recipe(w).ok());
  const std::vector<Part> parts = parts_of(w, 1, 4);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].source.row_begin, 3);
  EXPECT_EQ(parts[0].source.row_end, 4);
  EXPECT_EQ(parts[0].row, 0);
  EXPECT_EQ(parts[1].source.col_begin, 5);
  EXPECT_EQ(parts[1].source.col_end, 7);
  EXPECT_EQ(parts[1].source.row_end, 4);
  EXPECT_EQ(parts[1].row, 1);
  EXPECT_EQ(parts_of(w, 4, 6).size(), 1u);
}

}  // namespace
}  // namespace lockstep

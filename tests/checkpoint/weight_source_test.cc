// SPDX-License-Identifier: Apache-2.0
// A weight's rows from a checkpoint and from random numbers, and the errors that users see when
// checkpoint and config disagree.
#include "checkpoint/weight_source.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/support/files/safetensors_writer.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

program::Weight weight(const std::string& text) {
  program::Weight parsed;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &parsed)) << text;
  return parsed;
}

// A matrix with the values `base` + 100 * row + column.
TestTensor numbered(float base, int64_t rows, int64_t cols, const std::string& dtype = "F32") {
  TestTensor tensor{.dtype = dtype, .shape = {rows, cols}, .values = {}};
  for (int64_t i = 0; i < rows * cols; ++i) {
    const int64_t row = i / cols, col = i % cols;
    tensor.values.push_back(base + static_cast<float>(100 * row + col));
  }
  return tensor;
}

class WeightSourceTest : public testing::Test {
 protected:
  WeightSource open(const TestTensors& tensors) {
    write_safetensors(folder_.path() / "model.safetensors", tensors);
    auto checkpoint = Checkpoint::open(folder_.path());
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    return WeightSource(*std::move(checkpoint));
  }
  const TempFolder folder_;
};

std::vector<float> read(const WeightSource& source, const program::Weight& weight,
                        int64_t row_begin, int64_t row_end) {
  EXPECT_TRUE(source.check(weight).ok()) << source.check(weight);
  std::vector<float> out((row_end - row_begin) * weight.cols(), -1.0f);
  const absl::Status status =
      source.read_rows(weight, row_begin, row_end, out.data(), weight.cols());
  EXPECT_TRUE(status.ok()) << status;
  return out;
}

// Expects that any range of rows, read alone, has the values that it has in the whole weight.
void expect_each_range(const WeightSource& source, const program::Weight& weight,
                       const std::vector<float>& whole) {
  const int64_t rows = weight.rows(), cols = weight.cols();
  EXPECT_EQ(read(source, weight, 0, rows), whole);
  for (int64_t begin = 0; begin <= rows; ++begin) {
    for (int64_t end = begin; end <= rows; ++end) {
      EXPECT_EQ(read(source, weight, begin, end),
                std::vector<float>(whole.begin() + begin * cols, whole.begin() + end * cols));
    }
  }
}

const char kStacked[] =
    "name: 'qkv' role: LINEAR_WEIGHT rows: 5 cols: 2 "
    "pieces { source: 'q' source_shape: [4, 3] row_begin: 1 row_end: 3 col_begin: 1 col_end: 3 }"
    "pieces { source: 'k' source_shape: [2, 6] row_end: 2 col_begin: 3 col_end: 5 transpose: true }"
    "pieces { source: 'v' source_shape: [4, 2] row_begin: 3 row_end: 4 col_end: 2 }";

TEST_F(WeightSourceTest, PiecesAreStackedVertically) {
  const WeightSource source = open(
      {{"q", numbered(0, 4, 3, "F16")}, {"k", numbered(1000, 2, 6)}, {"v", numbered(5000, 4, 2)}});
  const program::Weight w = weight(kStacked);
  const std::vector<float> whole = {101, 102, 201, 202, 1003, 1103, 1004, 1104, 5300, 5301};
  expect_each_range(source, w, whole);
  EXPECT_EQ(*source.bytes_to_read(w), 4 * 2 + 4 * 4 + 2 * 4);
}

TEST_F(WeightSourceTest, BiasesAreSideBySide) {
  TestTensors tensors = {{"a", numbered(0, 1, 6)}, {"b", numbered(50, 1, 3)}};
  tensors["a"].shape = {6};
  tensors["b"].shape = {3};
  const WeightSource source = open(tensors);
  const program::Weight w = weight(
      "name: 'bias' role: BIAS rows: 1 cols: 5 "
      "pieces { source: 'a' source_shape: 6 row_end: 1 col_begin: 2 col_end: 4 }"
      "pieces { source: 'b' source_shape: 3 row_end: 1 col_end: 3 }");
  EXPECT_EQ(read(source, w, 0, 1), (std::vector<float>{2, 3, 50, 51, 52}));
  EXPECT_EQ(*source.bytes_to_read(w), 20);
}

// The halves have three rows each, whatever the pieces are.
TEST_F(WeightSourceTest, RowsOfBothHalvesOfAPairedWeightAlternate) {
  const WeightSource source = open({{"a", numbered(0, 4, 2)}, {"b", numbered(1000, 2, 3)}});
  const program::Weight w = weight(
      "name: 'pairs' role: LINEAR_WEIGHT rows: 6 cols: 2 paired: true "
      "pieces { source: 'a' source_shape: [4, 2] row_end: 4 col_end: 2 }"
      "pieces { source: 'b' source_shape: [2, 3] row_end: 2 col_begin: 1 col_end: 3 "
      "transpose: true }");
  const std::vector<float> whole = {0, 1, 300, 301, 100, 101, 1001, 1101, 200, 201, 1002, 1102};
  expect_each_range(source, w, whole);
  EXPECT_THAT(message_of(source.stored_rows(w).status()), HasSubstr("several tensors"));
}

TEST_F(WeightSourceTest, ColumnsOfAPairedBiasAlternate) {
  TestTensors tensors = {{"a", numbered(0, 1, 6)}, {"b", numbered(50, 1, 3)}};
  tensors["a"].shape = {6};
  tensors["b"].shape = {3};
  const WeightSource source = open(tensors);
  const program::Weight w = weight(
      "name: 'bias' role: BIAS rows: 1 cols: 6 paired: true "
      "pieces { source: 'a' source_shape: 6 row_end: 1 col_begin: 1 col_end: 5 }"
      "pieces { source: 'b' source_shape: 3 row_end: 1 col_begin: 1 col_end: 3 }");
  EXPECT_EQ(read(source, w, 0, 1), (std::vector<float>{1, 4, 2, 51, 3, 52}));
}

TEST_F(WeightSourceTest, AMatrixOfAStackIsReadAsStoredOrTransposed) {
  TestTensors tensors = {{"experts", numbered(0, 6, 3)}};  // The matrices have 2 rows each.
  tensors["experts"].shape = {3, 2, 3};
  const WeightSource source = open(tensors);
  const std::string piece = "pieces { source: 'experts' source_shape: [3, 2, 3] row_begin: 4 ";
  const program::Weight last =
      weight("role: LINEAR_WEIGHT rows: 2 cols: 2 " + piece + "row_end: 6 col_end: 2 }");
  EXPECT_EQ(read(source, last, 0, 2), (std::vector<float>{400, 401, 500, 501}));
  const program::Weight transposed = weight("role: LINEAR_WEIGHT rows: 3 cols: 2 " + piece +
                                            "row_end: 6 col_end: 3 " + "transpose: true }");
  EXPECT_EQ(read(source, transposed, 1, 3), (std::vector<float>{401, 501, 402, 502}));
  const program::Weight flat = weight(
      "role: LINEAR_WEIGHT rows: 6 cols: 3 pieces { source: 'experts' source_shape: [6, 3] "
      "row_end: 6 col_end: 3 }");
  EXPECT_THAT(message_of(source.check(flat)),
              HasSubstr("experts: the config expects [6, 3], the checkpoint has [3, 2, 3]"));
}

TEST_F(WeightSourceTest, RecipesCountAlternatingColumnsKindByKind) {
  const WeightSource source = open({{"gate_up", numbered(0, 3, 8)}, {"bias", numbered(0, 1, 8)}});
  // Two kinds of columns alternate. A recipe counts the columns 0, 2, 4, 6 as 0 to 3, and the
  // columns 1, 3, 5, 7 as 4 to 7.
  const std::string up = "source: 'gate_up' source_shape: [3, 8] interleaved: 2 row_end: 3 ";
  const program::Weight transposed =
      weight("name: 'up' role: LINEAR_WEIGHT rows: 3 cols: 3 pieces { " + up +
             "col_begin: 5 col_end: 8 transpose: true }");
  EXPECT_EQ(read(source, transposed, 0, 3),
            (std::vector<float>{3, 103, 203, 5, 105, 205, 7, 107, 207}));
  EXPECT_EQ(read(source, transposed, 1, 2), (std::vector<float>{5, 105, 205}));
  const program::Weight as_stored =
      weight("name: 'both' role: LINEAR_WEIGHT rows: 3 cols: 2 pieces { " + up +
             "col_begin: 3 col_end: 5 }");
  EXPECT_EQ(read(source, as_stored, 1, 3), (std::vector<float>{106, 101, 206, 201}));
  const program::Weight bias = weight(
      "name: 'b' role: BIAS rows: 1 cols: 3 pieces { source: 'bias' source_shape: [1, 8] "
      "interleaved: 2 row_end: 1 col_begin: 5 col_end: 8 }");
  EXPECT_EQ(read(source, bias, 0, 1), (std::vector<float>{3, 5, 7}));
  EXPECT_FALSE(source
                   .check(weight("name: 'b' role: BIAS rows: 1 cols: 8 pieces { source: 'bias' "
                                 "source_shape: [1, 8] interleaved: 3 row_end: 1 col_end: 8 }"))
                   .ok());
}

TEST_F(WeightSourceTest, UnitRowsHaveLengthOneForAnyRange) {
  const WeightSource source =
      open({{"head", {.dtype = "F32", .shape = {3, 2}, .values = {3, 4, 0, 0, -5, 12}}}});
  const program::Weight head = weight(
      "name: 'head' role: HEAD_WEIGHT rows: 3 cols: 2 pieces { source: 'head' "
      "source_shape: [3, 2] row_end: 3 col_end: 2 unit_rows: true }");
  EXPECT_EQ(read(source, head, 0, 3),
            (std::vector<float>{0.6f, 0.8f, 0, 0, -5 / 13.0f, 12 / 13.0f}));
  EXPECT_EQ(read(source, head, 2, 3), (std::vector<float>{-5 / 13.0f, 12 / 13.0f}));
}

TEST_F(WeightSourceTest, AStrideLeavesTheMarginUnchanged) {
  const WeightSource source = open({{"w", numbered(0, 2, 2)}});
  const program::Weight w = weight(
      "role: LINEAR_WEIGHT rows: 2 cols: 2 pieces { source: 'w' source_shape: [2, 2] row_end: 2 "
      "col_end: 2 }");
  std::vector<float> out(6, -1.0f);
  ASSERT_TRUE(source.read_rows(w, 0, 2, out.data(), 3).ok());
  EXPECT_EQ(out, (std::vector<float>{0, 1, -1, 100, 101, -1}));
}

const char kUpProj[] =
    "name: 'w' role: LINEAR_WEIGHT rows: 4 cols: 3 "
    "pieces { source: 'mlp.up_proj.weight' source_shape: [4, 3] row_end: 4 col_end: 3 }";

TEST_F(WeightSourceTest, AMissingTensorIsNamedWithTheFolder) {
  const WeightSource source = open({{"other", numbered(0, 4, 3)}});
  const std::string wanted = "mlp.up_proj.weight is missing from the checkpoint " +
                             folder_.path().string() +
                             "; does its config.json belong to these weights?";
  EXPECT_EQ(message_of(source.check(weight(kUpProj))), wanted);
  EXPECT_EQ(message_of(source.bytes_to_read(weight(kUpProj)).status()), wanted);
  float out[12];
  EXPECT_EQ(message_of(source.read_rows(weight(kUpProj), 0, 4, out, 3)), wanted);
}

TEST_F(WeightSourceTest, AnErrorNamesTheStoredAndTheExpectedShape) {
  TestTensors tensors = {{"mlp.up_proj.weight", numbered(0, 3, 4)}};
  EXPECT_THAT(message_of(open(tensors).check(weight(kUpProj))),
              HasSubstr("mlp.up_proj.weight: the config expects [4, 3], the checkpoint has "
                        "[3, 4]; does "));
  tensors["mlp.up_proj.weight"].shape = {1, 4, 3};  // Same elements, other shape.
  EXPECT_THAT(message_of(open(tensors).check(weight(kUpProj))),
              HasSubstr("the checkpoint has [1, 4, 3]"));
}

TEST_F(WeightSourceTest, ATensorOfAnotherTypeIsNamedWithItsType) {
  EXPECT_THAT(
      message_of(open({{"mlp.up_proj.weight", numbered(0, 4, 3, "I64")}}).check(weight(kUpProj))),
      HasSubstr("mlp.up_proj.weight: must be F32, BF16 or F16, the checkpoint has I64"));
}

TEST_F(WeightSourceTest, ABadRecipeIsAnErrorAndNotACrash) {
  const WeightSource source = open({{"w", numbered(0, 4, 3)}});
  const program::Weight w =
      weight("rows: 9 cols: 3 pieces { source: 'w' source_shape: [4, 3] row_end: 9 col_end: 3 }");
  EXPECT_FALSE(source.check(w).ok());
  EXPECT_FALSE(source.bytes_to_read(w).ok());
  EXPECT_FALSE(WeightSource(RandomWeights(1)).check(w).ok());
}

TEST_F(WeightSourceTest, ThreadsMayReadConcurrently) {
  const TestTensor stored = numbered(0, 400, 90);
  const WeightSource source = open({{"w", stored}});
  const program::Weight w = weight(
      "role: LINEAR_WEIGHT rows: 400 cols: 90 pieces { source: 'w' source_shape: [400, 90] "
      "row_end: 400 col_end: 90 }");
  std::vector<float> out(400 * 90);
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      EXPECT_TRUE(source.read_rows(w, t * 100, t * 100 + 100, &out[t * 9000], 90).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(out, stored.values);
}

TEST(RandomSourceTest, RanksAgreeOnTheirParts) {
  const WeightSource source{RandomWeights(9)};
  const program::Weight whole = weight(
      "name: 'w' role: LINEAR_WEIGHT rows: 8 cols: 6 pieces { source: 'w' source_shape: [8, 6] "
      "row_end: 8 col_end: 6 }");
  const program::Weight half = weight(
      "name: 'w' role: LINEAR_WEIGHT rows: 4 cols: 6 pieces { source: 'w' source_shape: [8, 6] "
      "row_begin: 4 row_end: 8 col_end: 6 }");
  const std::vector<float> all = read(source, whole, 0, 8);
  EXPECT_EQ(read(source, half, 0, 4), std::vector<float>(all.begin() + 24, all.end()));
  EXPECT_EQ(read(source, half, 1, 3), std::vector<float>(all.begin() + 30, all.begin() + 42));
  EXPECT_EQ(*source.bytes_to_read(half), 4 * 6 * 4);
}

TEST(RandomSourceTest, RandomPiecesAreAssembledLikeThoseOfACheckpoint) {
  const WeightSource source{RandomWeights(9)};
  const program::Weight w = weight(kStacked);
  const std::vector<float> all = read(source, w, 0, 5);
  EXPECT_EQ(read(source, w, 2, 5), std::vector<float>(all.begin() + 4, all.end()));
  EXPECT_TRUE(has_transposed_piece(w));
  EXPECT_FALSE(has_transposed_piece(weight(kUpProj)));
}

}  // namespace
}  // namespace lockstep

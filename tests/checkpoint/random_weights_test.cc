// SPDX-License-Identifier: Apache-2.0
// Random weights: slices agree, scales are right, and the bits never change.
#include "checkpoint/random_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <set>
#include <vector>

namespace lockstep {
namespace {

program::Piece piece_of(const std::string& source, std::vector<int64_t> shape, bool transposed) {
  program::Piece piece;
  piece.set_source(source);
  for (const int64_t size : shape) piece.add_source_shape(size);
  piece.set_transpose(transposed);
  return piece;
}

std::vector<float> read(uint64_t seed, const program::Piece& piece, program::Role role,
                        const Rectangle& rectangle) {
  std::vector<float> out(rectangle.rows() * rectangle.cols());
  RandomWeights(seed).read(piece, role, rectangle, out.data(),
                           piece.transpose() ? rectangle.rows() : rectangle.cols());
  return out;
}

struct Moments {
  double mean;
  double deviation;
};

Moments moments(const std::vector<float>& values) {
  double sum = 0, squares = 0;
  for (const float v : values) sum += v, squares += double{v} * v;
  const double mean = sum / values.size();
  return {mean, std::sqrt(squares / values.size() - mean * mean)};
}

TEST(RandomWeightsTest, AnySliceAgreesWithTheWhole) {
  const program::Piece piece = piece_of("w", {300, 200}, false);
  const std::vector<float> whole = read(7, piece, program::LINEAR_WEIGHT, {0, 300, 0, 200});
  for (const Rectangle& cut : {Rectangle{0, 1, 0, 1}, {13, 200, 7, 133}, {299, 300, 199, 200}}) {
    const std::vector<float> part = read(7, piece, program::LINEAR_WEIGHT, cut);
    for (int64_t r = 0; r < cut.rows(); ++r) {
      for (int64_t c = 0; c < cut.cols(); ++c) {
        ASSERT_EQ(part[r * cut.cols() + c], whole[(cut.row_begin + r) * 200 + cut.col_begin + c]);
      }
    }
  }
}

TEST(RandomWeightsTest, ATransposedReadIsTheTranspose) {
  // The scale depends on the number of inputs, which is the same both ways in a square matrix.
  const Rectangle cut{3, 150, 20, 199};
  const std::vector<float> plain =
      read(7, piece_of("w", {200, 200}, false), program::LINEAR_WEIGHT, cut);
  const std::vector<float> transposed_values =
      read(7, piece_of("w", {200, 200}, true), program::LINEAR_WEIGHT, cut);
  for (int64_t r = 0; r < cut.rows(); ++r) {
    for (int64_t c = 0; c < cut.cols(); ++c) {
      ASSERT_EQ(plain[r * cut.cols() + c], transposed_values[c * cut.rows() + r]);
    }
  }
}

TEST(RandomWeightsTest, SeedNameRowAndColumnAllMatter) {
  const Rectangle all{0, 64, 0, 64};
  const auto a = read(1, piece_of("a", {64, 64}, false), program::LINEAR_WEIGHT, all);
  EXPECT_NE(a, read(2, piece_of("a", {64, 64}, false), program::LINEAR_WEIGHT, all));
  EXPECT_NE(a, read(1, piece_of("b", {64, 64}, false), program::LINEAR_WEIGHT, all));
  EXPECT_GT(std::set<float>(a.begin(), a.end()).size(), 4090u);  // Out of 4,096 draws of 24 bits.
}

TEST(RandomWeightsTest, ScalesPreserveTheSizeOfActivations) {
  const auto check = [](const program::Piece& piece, program::Role role, const Rectangle& all,
                        double mean, double deviation) {
    const Moments found = moments(read(3, piece, role, all));
    EXPECT_NEAR(found.mean, mean, 0.01 * deviation);
    EXPECT_NEAR(found.deviation, deviation, 0.01 * deviation);
  };
  const Rectangle all{0, 256, 0, 1024};
  const double third = 1 / std::sqrt(3.0);
  check(piece_of("w", {256, 1024}, false), program::LINEAR_WEIGHT, all, 0, 1 / std::sqrt(1024));
  check(piece_of("w", {256, 1024}, true), program::LINEAR_WEIGHT, all, 0, 1 / std::sqrt(256));
  check(piece_of("w", {4, 64, 1024}, true), program::LINEAR_WEIGHT, all, 0, 1 / std::sqrt(64));
  check(piece_of("w", {256, 1024}, false), program::HEAD_WEIGHT, all, 0, 1 / std::sqrt(1024));
  check(piece_of("w", {256, 1024}, false), program::EMBEDDING, all, 0, 1);
  const Rectangle row{0, 1, 0, 1 << 18};
  check(piece_of("w", {1 << 18}, false), program::BIAS, row, 0, 0.02 * third);
  check(piece_of("w", {1 << 18}, false), program::NORM, row, 1, 0.1 * third);
  for (const float v : read(3, piece_of("w", {1 << 18}, false), program::NORM, row)) {
    ASSERT_LE(std::fabs(v - 1.0f), 0.1f + 1e-6f);
  }
}

TEST(RandomWeightsTest, NeighboursAreUncorrelated) {
  const int64_t n = 512;
  const auto w = read(5, piece_of("w", {n, n}, false), program::EMBEDDING, {0, n, 0, n});
  for (const int64_t step : {int64_t{1}, int64_t{2}, n - 1, n, n + 1, 2 * n}) {
    double sum = 0;
    const int64_t pairs = n * n - step;
    for (int64_t i = 0; i < pairs; ++i) sum += double{w[i]} * w[i + step];
    EXPECT_LT(std::fabs(sum / pairs), 5 / std::sqrt(pairs)) << step;
  }
}

TEST(RandomWeightsTest, BitsAreFixed) {
  // Measurements and goldens with a seed must be repeatable on any machine and in any release.
  const auto w =
      read(42, piece_of("model.norm.weight", {4, 4}, false), program::LINEAR_WEIGHT, {3, 4, 0, 4});
  std::vector<uint32_t> bits;
  for (const float v : w) bits.push_back(std::bit_cast<uint32_t>(v));
  EXPECT_EQ(bits, (std::vector<uint32_t>{3195048556, 3181966173, 1053031207, 3205921400}));
}

TEST(RandomWeightsTest, ALargeMatrixIsTheSameWholeAndInBlocksOfRows) {
  constexpr int64_t kSize = 2048;
  for (const bool transposed : {false, true}) {
    const program::Piece piece = piece_of("w", {kSize, kSize}, transposed);
    const auto start = std::chrono::steady_clock::now();
    const std::vector<float> whole = read(1, piece, program::LINEAR_WEIGHT, {0, kSize, 0, kSize});
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    std::printf("random weights%s: %.0f M elements/s\n", transposed ? ", transposed" : "",
                static_cast<double>(whole.size()) / took.count() / 1e6);
    for (int64_t begin = 0; begin < kSize; begin += 500) {
      const int64_t end = std::min(kSize, begin + 500);
      // The block has rows of the source, or columns of the source if it is transposed.
      const Rectangle rows =
          transposed ? Rectangle{0, kSize, begin, end} : Rectangle{begin, end, 0, kSize};
      const std::vector<float> block = read(1, piece, program::LINEAR_WEIGHT, rows);
      ASSERT_TRUE(std::equal(block.begin(), block.end(), whole.begin() + begin * kSize));
    }
  }
}

}  // namespace
}  // namespace lockstep

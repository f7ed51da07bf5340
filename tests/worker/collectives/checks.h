// SPDX-License-Identifier: Apache-2.0
// Collectives whose results are checked byte by byte, and groups whose ranks are threads.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "base/status.h"
#include "worker/collectives/collective.h"

namespace lockstep {

using Group = std::vector<std::unique_ptr<Collective>>;

inline constexpr uint64_t kSeed = 20240607;

// Runs `body` on every rank, each on its own thread.
inline std::vector<absl::Status> run(Group& group,
                                     const std::function<absl::Status(Collective&)>& body) {
  std::vector<absl::Status> results(group.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < group.size(); ++rank) {
    threads.emplace_back([&, rank] { results[rank] = body(*group[rank]); });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

inline void expect_ok(const std::vector<absl::Status>& results) {
  for (const absl::Status& result : results) EXPECT_TRUE(result.ok()) << result;
}

// A byte that depends on its position, so that it differs from its neighbours.
inline uint8_t byte_at(uint64_t seed, int64_t row, int64_t byte) {
  const uint64_t x = (seed + static_cast<uint64_t>(row) * 1'000'003 + static_cast<uint64_t>(byte)) *
                     0x9e3779b97f4a7c15ull;
  return static_cast<uint8_t>(x >> 56);
}

struct GatherCase {
  int64_t rows;
  std::vector<int64_t> boundaries;
  int64_t element_bytes;
  int64_t padding;  // Elements after each row of `in` and of `out`.
  bool in_place;    // The rank's own columns are in `out` already.
  uint64_t seed = kSeed;
};

inline absl::Status gather_and_check(Collective& group, const GatherCase& c) {
  constexpr uint8_t kUntouched = 0xa5;
  const int64_t size = c.element_bytes;
  const int64_t first = c.boundaries[group.rank()];
  const int64_t own = c.boundaries[group.rank() + 1] - first;
  const int64_t total = c.boundaries.back(), out_stride = total + c.padding;
  const int64_t in_stride = c.in_place ? out_stride : own + c.padding;
  std::vector<uint8_t> out(c.rows * out_stride * size + 1, kUntouched);
  std::vector<uint8_t> apart(c.in_place ? 0 : c.rows * in_stride * size + 1);
  uint8_t* in = c.in_place ? out.data() + first * size : apart.data();
  for (int64_t row = 0; row < c.rows; ++row) {
    for (int64_t byte = 0; byte < own * size; ++byte) {
      in[row * in_stride * size + byte] = byte_at(c.seed, row, first * size + byte);
    }
  }
  RETURN_IF_ERROR(group.all_gather({.in = in,
                                    .in_stride = in_stride,
                                    .out = out.data(),
                                    .out_stride = out_stride,
                                    .rows = c.rows,
                                    .boundaries = c.boundaries,
                                    .element_bytes = size}));
  for (int64_t row = 0; row < c.rows; ++row) {
    for (int64_t byte = 0; byte < out_stride * size; ++byte) {
      const uint8_t want = byte < total * size ? byte_at(c.seed, row, byte) : kUntouched;
      const uint8_t found = out[row * out_stride * size + byte];
      if (found == want) continue;
      return absl::DataLossError(
          fmt::format("row {} byte {}: must be {}, found {}", row, byte, want, found));
    }
  }
  return absl::OkStatus();
}

inline float addend(uint64_t seed, int rank, int64_t row, int64_t col) {
  // Sizes and signs differ widely, so that another order of additions gives other bits.
  std::minstd_rand random(static_cast<uint32_t>(seed * 31 + static_cast<uint64_t>(rank) * 7919 +
                                                static_cast<uint64_t>(row) * 104'729 + col) |
                          1);
  random.discard(3);
  const float mantissa = 1.0f + static_cast<float>(random() % 8'388'608) / 8'388'608.0f;
  const float value = std::ldexp(mantissa, static_cast<int>(random() % 40) - 20);
  return random() % 2 == 0 ? value : -value;
}

inline absl::Status reduce_and_check(Collective& group, int64_t rows, int64_t cols, int64_t padding,
                                     uint64_t seed = kSeed) {
  constexpr float kUntouched = 12345.0f;
  const int64_t stride = cols + padding;
  std::vector<float> data(rows * stride + 1, kUntouched);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = 0; col < cols; ++col) {
      data[row * stride + col] = addend(seed, group.rank(), row, col);
    }
  }
  RETURN_IF_ERROR(group.all_reduce(data.data(), rows, cols, stride));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = 0; col < stride; ++col) {
      float want = col < cols ? addend(seed, 0, row, col) : kUntouched;
      for (int r = 1; col < cols && r < group.ranks(); ++r) want += addend(seed, r, row, col);
      const float found = data[row * stride + col];
      if (std::bit_cast<uint32_t>(want) == std::bit_cast<uint32_t>(found)) continue;
      return absl::DataLossError(
          fmt::format("row {} col {}: must be {}, found {}", row, col, want, found));
    }
  }
  return absl::OkStatus();
}

// Split `total` columns into one part per rank: even() into parts of about the same size, uneven()
// into random ones, of which some are empty.
inline std::vector<int64_t> even(int ranks, int64_t total) {
  std::vector<int64_t> boundaries;
  for (int r = 0; r <= ranks; ++r) boundaries.push_back(total * r / ranks);
  return boundaries;
}

inline std::vector<int64_t> uneven(int ranks, int64_t total, std::minstd_rand& random) {
  std::vector<int64_t> boundaries = {0, total};
  for (int r = 1; r < ranks; ++r)
    boundaries.push_back(static_cast<int64_t>(random() % (total + 1)));
  if (ranks > 2) boundaries[2] = boundaries[3 % boundaries.size()];  // An empty part.
  std::sort(boundaries.begin(), boundaries.end());
  return boundaries;
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// Reads memory as fast as plain code can: for measurements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace lockstep {

// The sum of the words in `bytes`, whole cache lines. Eight sums, so that none waits for another.
inline uint64_t sum_of_words(const std::byte* data, int64_t bytes) {
  uint64_t sums[8] = {};
  for (int64_t at = 0; at < bytes; at += static_cast<int64_t>(sizeof(sums))) {
    uint64_t words[8];
    std::memcpy(words, data + at, sizeof(words));
    for (int i = 0; i < 8; ++i) sums[i] += words[i];
  }
  uint64_t all = 0;
  for (const uint64_t sum : sums) all += sum;
  return all;
}

}  // namespace lockstep

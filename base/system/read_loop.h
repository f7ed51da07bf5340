// SPDX-License-Identifier: Apache-2.0
// Reads memory as fast as plain code can: for measurements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace lockstep {

// Returns the sum of the 64-bit words of `data`; `bytes` is a multiple of 64. Keeps eight sums, so
// that eight additions can run at once.
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

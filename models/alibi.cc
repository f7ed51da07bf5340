// SPDX-License-Identifier: Apache-2.0
#include "models/alibi.h"

#include <bit>
#include <cstddef>

#include "base/math.h"

namespace lockstep {
namespace {

// The i-th slope, from 1 on, of `heads`.
float slope(int64_t i, int64_t heads) {
  return static_cast<float>(
      exact_pow(2, -8.0 * static_cast<double>(i) / static_cast<double>(heads)));
}

}  // namespace

std::vector<float> mpt_alibi_slopes(int64_t heads) {
  const auto above = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(heads)));
  std::vector<float> slopes;
  if (above == heads) return alibi_slopes(heads);
  for (int64_t i = 2; i <= above; i += 2) slopes.push_back(slope(i, above));
  for (int64_t i = 1; i <= above; i += 2) slopes.push_back(slope(i, above));
  slopes.resize(static_cast<size_t>(heads));
  return slopes;
}

}  // namespace lockstep

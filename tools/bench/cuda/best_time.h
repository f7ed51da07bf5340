// SPDX-License-Identifier: Apache-2.0
// The time of a variant's call.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

#include "worker/kernels/device.h"

namespace lockstep {

// Microseconds per call: the fastest of a few runs. Nullopt if the device failed.
template <typename Call>
std::optional<double> best_time(Device& device, const Call& call) {
  constexpr int kVariantRuns = 3;
  constexpr double kRunUs = 3000;
  double best = 0;
  int64_t calls = 2;
  for (int run = -1; run < kVariantRuns; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < calls; ++i) {
      if (call(i) != nullptr) return std::nullopt;
    }
    if (device.synchronize() != nullptr) return std::nullopt;
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
    const double each = time.count() / static_cast<double>(calls);
    if (run < 0) {
      calls = std::max<int64_t>(2, static_cast<int64_t>(kRunUs / each));
    } else if (run == 0 || each < best) {
      best = each;
    }
  }
  return best;
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "worker/host/read_rate.h"

#include <gtest/gtest.h>

#include <ctime>

namespace lockstep {
namespace {

TEST(ReadRateTest, TheReadRateIsPlausibleAndCheapToMeasure) {
  for (const int threads : {1, 3}) {
    const clock_t before = clock();
    const double rate = measure_read_rate(threads, {});
    EXPECT_GT(rate, 1e7);   // Even disks are faster.
    EXPECT_LT(rate, 1e14);  // A higher rate means that nothing was read.
    // The measurement takes about a tenth of this limit; with sanitizers it is slower.
    EXPECT_LT(clock() - before, 2 * CLOCKS_PER_SEC);
  }
}

}  // namespace
}  // namespace lockstep

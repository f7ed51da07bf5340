// SPDX-License-Identifier: Apache-2.0
#include "coordinator/http/connection/write_turn.h"

#include <gtest/gtest.h>

namespace lockstep::http {
namespace {

TEST(WriteTurnTest, ATurnEndsAfterSoManyPieces) {
  int pieces = 0;
  for (WriteTurn turn(3); turn.goes_on();) ++pieces;
  EXPECT_GE(pieces, 1);
  EXPECT_LE(pieces, 3);
}

TEST(WriteTurnTest, ATurnEndsAfterAPieceThatTakesLong) {
  WriteTurn turn(1'000'000);
  for (const int64_t begin = thread_time_ns(); thread_time_ns() - begin < 1'000'000;) {
  }
  EXPECT_TRUE(turn.goes_on()) << "each turn writes one piece";
  EXPECT_FALSE(turn.goes_on());
  EXPECT_TRUE(turn.is_long());
}

}  // namespace
}  // namespace lockstep::http

// SPDX-License-Identifier: Apache-2.0
// The part of a limit that each client may use.
#include "coordinator/ports/buffered_bytes.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace lockstep {
namespace {

constexpr int64_t kMax = 1 << 20;

// The maximum number of bytes that a new client gets, in steps of 1 KiB.
int64_t max_bytes_of(BufferedBytes* all, const std::string& client,
                     std::vector<std::unique_ptr<BufferedBytes::Share>>* shares) {
  auto share = std::make_unique<BufferedBytes::Share>(all);
  share->belong_to(client);
  int64_t bytes = 0;
  while (share->hold(bytes + 1024).fit(kMax)) bytes += 1024;
  share->hold(bytes);
  shares->push_back(std::move(share));
  return bytes;
}

TEST(BufferedBytesTest, AClientHasAtMostHalfAndFewClientsLeaveRoomForOthers) {
  BufferedBytes all;
  std::vector<std::unique_ptr<BufferedBytes::Share>> shares;
  EXPECT_EQ(max_bytes_of(&all, "a", &shares), kMax / 2);
  const int64_t second = max_bytes_of(&all, "b", &shares);
  EXPECT_GT(second, kMax / 4);
  EXPECT_LT(second, kMax / 2);
  EXPECT_GT(max_bytes_of(&all, "c", &shares), kMax / 16);
}

TEST(BufferedBytesTest, AClientMayAlwaysHaveASmallPart) {
  BufferedBytes all;
  std::vector<std::unique_ptr<BufferedBytes::Share>> shares;
  for (int i = 0; i < 50; ++i) max_bytes_of(&all, std::to_string(i), &shares);
  EXPECT_EQ(max_bytes_of(&all, "new", &shares), kMax / 256);
  shares.clear();
  EXPECT_EQ(max_bytes_of(&all, "new", &shares), kMax / 2) << "all bytes are free again";
}

}  // namespace
}  // namespace lockstep

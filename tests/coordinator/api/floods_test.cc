// SPDX-License-Identifier: Apache-2.0
// A client that sends without end delays neither workers' heartbeats nor other clients' answers.
#include <thread>

#include "tests/support/network/http2.h"
#include "tests/support/network/socket.h"
#include "tests/support/processes/server.h"

namespace lockstep::testing {
namespace {

constexpr int kFloods = 3;

TEST(FloodsTest, TinyFramesDoNotLoseTheGroup) {
  Server server({"--workers", "2"});
  const std::vector<pid_t> workers = server.workers();
  const std::string update = http2::frame(http2::kWindowUpdate, 0, 0, http2::big_endian(1, 4));
  std::string updates;
  while (updates.size() < 1 << 20) updates += update;
  std::vector<Socket> sockets;
  std::vector<std::thread> floods;
  for (int i = 0; i < kFloods; ++i) {
    sockets.emplace_back(server.address());
    sockets.back().send(http2::preface());
  }
  floods.reserve(kFloods);
  for (const Socket& socket : sockets) {
    floods.emplace_back([&] {
      while (socket.send(updates)) {
      }
    });
  }
  // Three seconds are long enough for two heartbeats to be missed.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  while (std::chrono::steady_clock::now() < end) {
    const Answered answer = server.generate(story(16, 1));
    EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
  }
  for (const Socket& socket : sockets) socket.hang_up();
  for (std::thread& flood : floods) flood.join();
  EXPECT_EQ(server.process().err().find("the group was lost"), std::string::npos);
  EXPECT_EQ(server.workers(), workers);
}

}  // namespace
}  // namespace lockstep::testing

// SPDX-License-Identifier: Apache-2.0
// The wall clock jumps while a server runs; its timeouts use another clock.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/processes/server.h"

namespace lockstep::testing {
namespace {

constexpr char kFakeTime[] = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";

// The wall-clock time that processes under libfaketime see.
class WallClock {
 public:
  WallClock() { jump("+0"); }
  // Jumps by this many seconds from now: "-3600".
  void jump(const std::string& offset) {
    std::ofstream(file() + ".new") << offset << "\n";
    std::filesystem::rename(file() + ".new", file());
  }
  ProcessOptions options() const {
    return {.input = "",
            .environment = {{"LD_PRELOAD", kFakeTime},
                            {"FAKETIME_TIMESTAMP_FILE", file()},
                            {"FAKETIME_DONT_FAKE_MONOTONIC", "1"},
                            {"FAKETIME_NO_CACHE", "1"}}};
  }

 private:
  std::string file() const { return folder_.path() + "/offset"; }
  TemporaryFolder folder_;
};

TEST(ClockTest, AJumpByAnHourChangesNothing) {
  if (!std::filesystem::exists(kFakeTime)) GTEST_SKIP() << "libfaketime is not installed";
  WallClock clock;
  Server server({"--workers", "2", "--log-format", "json"}, clock.options());
  std::vector<pid_t> workers = server.workers();
  v1::GenerateRequest request = story(900, 3);
  request.set_ignore_eos(true);  // It runs until the clock has jumped, also on a busy machine.
  const Answered alone = server.generate(request);
  ASSERT_TRUE(alone.status.ok());
  for (const char* offset : {"+3600", "-3600", "+0"}) {
    Answered answer;
    std::thread client([&] { answer = server.generate(request); });
    EXPECT_TRUE(server.eventually([](const auto& model) { return model.running() > 0; }));
    clock.jump(offset);
    client.join();
    EXPECT_TRUE(answer.status.ok()) << offset << ": " << answer.status.error_message();
    EXPECT_EQ(answer.tokens, alone.tokens) << offset;
    EXPECT_TRUE(server.model().ready()) << offset;
    EXPECT_EQ(server.workers(), workers) << offset << ": " << server.process().err();
    // The stopped worker is lost after --silent-ms. Others are not lost.
    const pid_t stopped = workers[1];
    kill(stopped, SIGSTOP);
    EXPECT_TRUE(becomes_true([&] { return !is_alive(stopped); })) << offset;
    EXPECT_TRUE(server.eventually([](const auto& model) { return model.ready(); })) << offset;
    EXPECT_THAT(server.workers(), ::testing::Contains(workers[0])) << server.process().err();
    workers = server.workers();
  }
  server.process().signal(SIGTERM);
  EXPECT_EQ(server.process().wait(), 0) << server.process().err();
}

}  // namespace
}  // namespace lockstep::testing

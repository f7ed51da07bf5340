// SPDX-License-Identifier: Apache-2.0
// A server that gets no more memory from the system.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <thread>

#include "tests/support/network/http_client.h"
#include "tests/support/patience.h"
#include "tests/support/processes/server.h"

namespace lockstep::testing {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // Sanitizers reserve much address space.
#else
constexpr bool kSanitized = false;
#endif

rlim_t address_space_of(pid_t pid) {
  std::ifstream statm("/proc/" + std::to_string(pid) + "/statm");
  rlim_t pages = 0;
  statm >> pages;
  return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

void limit_address_space(pid_t pid, rlim_t bytes) {
  rlimit limit = {};
  ASSERT_EQ(prlimit(pid, RLIMIT_AS, nullptr, &limit), 0);
  limit.rlim_cur = std::min(bytes, limit.rlim_max);
  ASSERT_EQ(prlimit(pid, RLIMIT_AS, &limit, nullptr), 0);
}

TEST(MemoryLimitTest, LargeRequestsFailAndTheServerContinues) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need much address space";
  Server server;
  const pid_t pid = server.process().pid();
  limit_address_space(pid, address_space_of(pid) + (16 << 20));
  const std::string body = R"({"prompt": ")" + std::string(4'000'000, 'a') + R"("})";
  std::atomic<int> refused{0};
  std::vector<std::thread> clients;
  clients.reserve(8);
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&] {
      HttpClient client(server.http_address());
      client.send(http_request("POST", "/tokenize", "", body));
      refused += client.read().status == 200 ? 0 : 1;
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_GT(refused, 0) << "the limit was not reached";
  limit_address_space(pid, RLIM_INFINITY);
  EXPECT_TRUE(becomes_true([&] {
    return HttpClient(server.http_address()).get("/readyz").status == 200;
  })) << server.process().err();
  EXPECT_TRUE(server.generate(story(1, 3)).status.ok()) << server.process().err();
}

}  // namespace
}  // namespace lockstep::testing

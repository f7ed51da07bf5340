// SPDX-License-Identifier: Apache-2.0
// Connections arrive, are refused and close; none of it stops the listener.
#include "coordinator/ports/listener.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

#include "base/sockets/address.h"
#include "base/status.h"
#include "base/system/descriptors.h"
#include "base/threads/mutex.h"
#include "tests/support/files/temp_folder.h"
#include "tests/support/network/socket.h"

namespace lockstep::testing {
namespace {

// A listener whose connections stay open until close_all().
class Host {
 public:
  explicit Host(int64_t max_connections, const std::string& address = "127.0.0.1:0",
                bool shares = false)
      : listener_(Listener::bind(address, max_connections, shares)) {
    EXPECT_TRUE(listener_.ok()) << listener_.status();
  }
  ~Host() {
    listener_->reset();
    close_all();
  }

  const std::string& address() const { return (*listener_)->address(); }
  void start() {
    (*listener_)
        ->start(
            [this](int descriptor) {
              MutexLock lock(&mutex_);
              accepted_.push_back(descriptor);
              changed_.notify_all();
            },
            [this](const std::string& network) {
              MutexLock lock(&mutex_);
              OpenConnections open = {.all = static_cast<int64_t>(accepted_.size())};
              for (const int descriptor : accepted_) {
                open.of_network += network_of(peer_address(descriptor)) == network ? 1 : 0;
              }
              return open;
            });
  }
  void stop() { (*listener_)->stop(); }
  void wait_for(size_t count) {
    MutexLock lock(&mutex_);
    while (accepted_.size() < count) changed_.wait(&mutex_);
  }
  int descriptor(size_t index) {
    MutexLock lock(&mutex_);
    return accepted_.at(index);
  }
  size_t count() {
    MutexLock lock(&mutex_);
    return accepted_.size();
  }
  void close_all() {
    MutexLock lock(&mutex_);
    for (const int descriptor : accepted_) ::close(descriptor);
    accepted_.clear();
  }

 private:
  absl::StatusOr<std::unique_ptr<Listener>> listener_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<int> accepted_ ABSL_GUARDED_BY(mutex_);
};

TEST(ListenerTest, ConnectionsAreHandedOverNonBlockingAndWithoutDelay) {
  Host host(10);
  host.start();
  Socket client(host.address());
  host.wait_for(1);
  const int accepted = host.descriptor(0);
  EXPECT_NE(fcntl(accepted, F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE(fcntl(accepted, F_GETFD) & FD_CLOEXEC, 0);
  int no_delay = 0;
  socklen_t bytes = sizeof no_delay;
  getsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &no_delay, &bytes);
  EXPECT_EQ(no_delay, 1);
}

// A client that has connected may have sent a request.
TEST(ListenerTest, StoppingHandsOverConnectionsThatWereNotAcceptedYet) {
  Host host(10);
  const Socket first(host.address());
  const Socket second(host.address());
  host.start();
  host.stop();
  EXPECT_EQ(host.count(), 2U);
}

TEST(ListenerTest, ConnectionsAboveTheBoundAreRefusedUntilOneIsClosed) {
  Host host(3);
  host.start();
  std::vector<Socket> clients;
  clients.reserve(3);
  for (int i = 0; i < 3; ++i) clients.emplace_back(host.address());
  host.wait_for(3);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(Socket(host.address()).is_closed_by_peer());
  EXPECT_EQ(host.count(), 3u);
  host.close_all();
  const Socket again(host.address());
  host.wait_for(1);
}

TEST(ListenerTest, OneNetworkLeavesRoomForOthers) {
  Host host(16, "127.0.0.1:0", /*shares=*/true);
  host.start();
  std::vector<Socket> clients;
  clients.reserve(16);
  for (int i = 0; i < 14; ++i) clients.emplace_back(host.address());
  host.wait_for(14);
  EXPECT_TRUE(Socket(host.address()).is_closed_by_peer());
  for (int i = 0; i < 2; ++i) clients.emplace_back(host.address(), "127.0.0.2");
  host.wait_for(16);
  EXPECT_TRUE(Socket(host.address(), "127.0.0.3").is_closed_by_peer());
  host.close_all();
  const Socket again(host.address());
  host.wait_for(1);
}

TEST(ListenerTest, AListenerOutOfDescriptorsRefusesAndGoesOn) {
  Host host(1000);
  std::vector<Socket> clients;
  clients.reserve(30);
  for (int i = 0; i < 30; ++i) clients.emplace_back(host.address());  // All wait to be accepted.
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlimit few = {.rlim_cur = static_cast<rlim_t>(clients.back().descriptor() + 6),
                      .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  host.start();
  EXPECT_TRUE(clients.back().is_closed_by_peer());  // This client came last.
  EXPECT_GE(std::ranges::count_if(clients, &Socket::was_closed), 15);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  host.close_all();
  clients.clear();
  Socket client(host.address());
  host.wait_for(1);
}

TEST(ListenerTest, ATakenPortIsAnErrorOfOneLine) {
  Host host(1);
  const auto second = Listener::bind(host.address(), 1);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(message_of(second.status()).find("in use"), std::string::npos) << second.status();
  EXPECT_NE(message_of(second.status()).find(host.address()), std::string::npos);
  EXPECT_EQ(message_of(second.status()).find('\n'), std::string::npos);
}

TEST(ListenerTest, HostNamesNumbersAndSocketPathsAreAddresses) {
  TempFolder folder;
  const std::string path = "unix:" + (folder.path() / "socket").string();
  for (const std::string& address : {std::string("localhost:0"), std::string("0.0.0.0:0"), path}) {
    Host host(5, address);
    host.start();
    Socket client(address == path ? path
                                  : "127.0.0.1" + host.address().substr(host.address().rfind(':')));
    host.wait_for(1);
  }
  for (const char* address : {"no-such-host.invalid:1", "127.0.0.1", "1.2.3.4:0", "127.0.0.1:x",
                              "unix:", "unix-abstract:", "unix:/no/such/folder/socket"}) {
    EXPECT_EQ(Listener::bind(address, 1).status().code(), absl::StatusCode::kInvalidArgument)
        << address;
  }
}

TEST(ListenerTest, AnAbstractSocketNameIsAnAddress) {
  const std::string name = fmt::format("lockstep-test-{}", getpid());
  Host host(5, "unix-abstract:" + name);
  host.start();
  sockaddr_un place = {};
  place.sun_family = AF_UNIX;
  std::ranges::copy(name, place.sun_path + 1);
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const int client = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(connect(client, reinterpret_cast<const sockaddr*>(&place), bytes), 0);
  host.wait_for(1);
  ::close(client);
  EXPECT_EQ(Listener::bind(host.address(), 1).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ListenerTest, TheLimitOfConnectionsLeavesDescriptorsForOtherUses) {
  const int64_t limit = descriptor_limit();
  EXPECT_GE(connections_within_limit(), 8);
  EXPECT_LE(connections_within_limit(), std::max<int64_t>(8, limit - 40));
}

}  // namespace
}  // namespace lockstep::testing

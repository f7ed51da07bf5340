// SPDX-License-Identifier: Apache-2.0
// A connection's reads and writes, and its socket options, which make the system buffer little and
// detect a client that is gone.
#include "base/tls/channel.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lockstep {
namespace {

int option(int descriptor, int level, int name) {
  int value = -1;
  socklen_t bytes = sizeof value;
  getsockopt(descriptor, level, name, &value, &bytes);
  return value;
}

TEST(ChannelTest, AHalfOpenConnectionIsDetectedWithin15Seconds) {
  const int descriptor = socket(AF_INET, SOCK_STREAM, 0);
  set_socket_options(descriptor);
  EXPECT_EQ(option(descriptor, SOL_SOCKET, SO_KEEPALIVE), 1);
  const int idle_seconds = option(descriptor, IPPROTO_TCP, TCP_KEEPIDLE);
  const int probe_seconds = option(descriptor, IPPROTO_TCP, TCP_KEEPINTVL);
  EXPECT_EQ(idle_seconds + probe_seconds * option(descriptor, IPPROTO_TCP, TCP_KEEPCNT), 15);
  EXPECT_EQ(option(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT), 15'000);
  EXPECT_LE(option(descriptor, SOL_SOCKET, SO_SNDBUF), 256 << 10);
  close(descriptor);
}

TEST(ChannelTest, ReadingEndsIfThePeerHasClosedButNotIfItIsIdle) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  Channel channel(ends[0], nullptr);
  char bytes[16];
  EXPECT_EQ(channel.read(bytes, sizeof bytes).outcome, Channel::Outcome::kWantRead);
  const std::string piece(1 << 16, 'x');
  while (channel.write(piece).outcome == Channel::Outcome::kDone) {
  }
  EXPECT_EQ(channel.write(piece).outcome, Channel::Outcome::kWantWrite);
  shutdown(ends[1], SHUT_WR);
  EXPECT_EQ(channel.read(bytes, sizeof bytes).outcome, Channel::Outcome::kEnd);
  close(ends[1]);
  EXPECT_EQ(channel.write(piece).outcome, Channel::Outcome::kFailed);  // Without a SIGPIPE.
  close(ends[0]);
}

}  // namespace
}  // namespace lockstep

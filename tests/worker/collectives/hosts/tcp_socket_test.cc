// SPDX-License-Identifier: Apache-2.0
#include "worker/collectives/hosts/tcp_socket.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>

#include "base/sockets/address.h"

namespace lockstep {
namespace {

std::string congestion_control(const FileDescriptor& fd) {
  char name[16] = "";
  socklen_t bytes = sizeof(name);
  EXPECT_EQ(getsockopt(fd.get(), IPPROTO_TCP, TCP_CONGESTION, name, &bytes), 0);
  return name;
}

// The system's congestion control stays, unless it is BBR.
TEST(TcpSocketTest, NeitherEndIsPacedByBbr) {
  const auto listener = listen_tcp("127.0.0.1:0", 1);
  ASSERT_TRUE(listener.ok()) << listener.status();
  const auto dialled = dial_tcp(local_address(listener->get()));
  ASSERT_TRUE(dialled.ok()) << dialled.status();
  pollfd polled{.fd = listener->get(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&polled, 1, -1), 1);
  const auto accepted = accept_tcp(*listener);
  ASSERT_TRUE(accepted.ok() && accepted->valid()) << accepted.status();
  const std::string own = congestion_control(*listener);
  for (const FileDescriptor* end : {&*dialled, &*accepted}) {
    const std::string found = congestion_control(*end);
    EXPECT_FALSE(found.starts_with("bbr"));
    EXPECT_TRUE(own.starts_with("bbr") || found == own) << found;
  }
}

TEST(TcpSocketTest, AnInterfaceIsFoundByItsAddress) {
  EXPECT_EQ(interface_of("127.0.0.1"), "lo");
  EXPECT_EQ(interface_of("203.0.113.1"), "") << "an address reserved for documentation";
  EXPECT_EQ(interface_of("localhost"), "") << "names are not resolved";
  EXPECT_EQ(interface_of(""), "");
}

}  // namespace
}  // namespace lockstep

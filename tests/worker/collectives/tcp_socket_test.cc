// SPDX-License-Identifier: Apache-2.0
#include "worker/collectives/tcp_socket.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(TcpSocketTest, AnInterfaceIsFoundByItsAddress) {
  EXPECT_EQ(interface_of("127.0.0.1"), "lo");
  EXPECT_EQ(interface_of("203.0.113.1"), "") << "an address for documentation";
  EXPECT_EQ(interface_of("localhost"), "") << "names are not looked up";
  EXPECT_EQ(interface_of(""), "");
}

}  // namespace
}  // namespace lockstep

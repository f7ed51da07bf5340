// SPDX-License-Identifier: Apache-2.0
#include "base/sockets/address.h"

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/status.h"

namespace lockstep {
namespace {

TEST(AddressTest, HostAndPortAreSplitAndJoined) {
  for (const char* address : {"10.0.0.2:50053", "[fd00::2]:1", "localhost:65535", "127.0.0.1:0"}) {
    const auto parts = split_address(address);
    ASSERT_TRUE(parts.ok()) << parts.status();
    EXPECT_EQ(join_address(parts->host, parts->port), address);
  }
  EXPECT_EQ(split_address("[fd00::2]:1")->host, "fd00::2");
  EXPECT_EQ(split_address(":1")->host, "");
}

TEST(AddressTest, ATextThatIsNoAddressIsNamed) {
  for (const char* address :
       {"", "8000", "localhost", "a:", "a:b", "a:65536", "a:-1", "a:123456", "fd00::2:1"}) {
    const auto parts = split_address(address);
    ASSERT_FALSE(parts.ok()) << address;
    EXPECT_THAT(message_of(parts.status()),
                testing::StartsWith(std::string(address) + ": must be"));
  }
}

TEST(AddressTest, AHostNameThatBeginsWithUnixIsNoUnixSocket) {
  EXPECT_TRUE(is_unix_address("unix:/tmp/socket"));
  EXPECT_TRUE(is_unix_address("unix-abstract:name"));
  EXPECT_FALSE(is_unix_address("unix-server:50052"));
  EXPECT_FALSE(is_unix_address("unixhost:1"));
}

TEST(AddressTest, OnlyLoopbackAddressesAndLocalhostAreOnLoopback) {
  for (const char* host : {"127.0.0.1", "127.1.2.3", "::1", "localhost"}) {
    EXPECT_TRUE(is_loopback_host(host)) << host;
  }
  for (const char* host : {"127.evil.example", "127.1", "10.0.0.1", "::", "", "localhost.a"}) {
    EXPECT_FALSE(is_loopback_host(host)) << host;
  }
}

TEST(AddressTest, AUsersNetworkIsAnIpv4AddressOrAnIpv6Prefix) {
  EXPECT_EQ(network_of("10.0.0.2:40123"), "10.0.0.2");
  EXPECT_EQ(network_of("[2001:db8:1:2:3:4:5:6]:40123"), "2001:db8:1:2::");
  EXPECT_EQ(network_of("[fe80::1%2]:40123"), "fe80::");
  for (const char* name : {"alice", "alice@example.com", "local", "unix:", "a:1", "[a]:1", ""}) {
    EXPECT_EQ(network_of(name), name);
  }
}

TEST(AddressTest, AnIpv4ClientOfAnIpv6SocketHasAnIpv4Address) {
  const int listener = socket(AF_INET6, SOCK_STREAM, 0);
  sockaddr_in6 any = {};
  any.sin6_family = AF_INET6;
  if (bind(listener, reinterpret_cast<sockaddr*>(&any), sizeof any) != 0) {
    close(listener);
    GTEST_SKIP() << "this machine has no IPv6";
  }
  ASSERT_EQ(listen(listener, 1), 0);
  const auto bound = split_address(local_address(listener));
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_TRUE(is_any_host(bound->host));
  const int caller = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in four = {};
  four.sin_family = AF_INET;
  four.sin_port = htons(static_cast<uint16_t>(std::stoi(bound->port)));
  four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(caller, reinterpret_cast<sockaddr*>(&four), sizeof four), 0);
  const int accepted = accept(listener, nullptr, nullptr);
  EXPECT_EQ(peer_address(accepted), local_address(caller));
  EXPECT_THAT(peer_address(accepted), testing::StartsWith("127.0.0.1:"));
  for (const int one : {listener, caller, accepted}) close(one);
}

TEST(AddressTest, AUnixSocketHasNoPeerAddress) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  EXPECT_EQ(peer_address(ends[0]), "");
  for (const int end : ends) close(end);
  EXPECT_EQ(peer_address(-1), "");
}

}  // namespace
}  // namespace lockstep

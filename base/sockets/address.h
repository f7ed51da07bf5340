// SPDX-License-Identifier: Apache-2.0
// Addresses as users write them and sockets have them: "10.0.0.2:50053", "[fd00::2]:50053",
// "localhost:8000". Nothing is looked up here.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace lockstep {

// "10.0.0.2" and "50053"; the host of "[fd00::2]:1" is without brackets.
struct HostAndPort {
  std::string host, port;
};
// kInvalidArgument: it is not HOST:PORT with a port of 0 to 65535. The host may be empty.
absl::StatusOr<HostAndPort> split_address(const std::string& address);
std::string join_address(const std::string& host, const std::string& port);

// "unix:/path", or "unix-abstract:name", which has no file: Unix sockets, as gRPC writes them.
inline constexpr std::string_view kUnixPrefix = "unix:";
inline constexpr std::string_view kAbstractPrefix = "unix-abstract:";
bool is_unix_address(std::string_view address);

// A number of 127.0.0.0/8, ::1 or "localhost": nobody outside this machine can reach it.
bool is_loopback_host(const std::string& host);
// "0.0.0.0", "::" or "": every address of this machine.
bool is_any_host(const std::string& host);

// The address of this end of a socket, with numbers alone; "" where it has none, as a Unix socket.
// An IPv4 address is written as one on an IPv6 socket, too.
std::string local_address(int socket);
// Of the other end.
std::string peer_address(int socket);
// Whether only this machine reaches this end: a loopback address, or a Unix socket.
bool is_on_loopback(int socket);
// A name without a file of a socket that stands between gRPC and a client begins so. Up to a slash
// it has anything, and then the client's address: "lockstep-relay/4c/10.0.0.2:40123".
inline constexpr std::string_view kRelayedName = "lockstep-relay/";
// The address of a peer as gRPC names it: "ipv6:%5B::1%5D:40123"; of a relayed one the client's.
// Another Unix socket's name stays.
std::string address_of_grpc_peer(const std::string& peer);
// The part of an address that one user has: "10.0.0.2" of "10.0.0.2:40123"; of IPv6 the 64 bits of
// a network, "fd00::". What is no address with numbers, as a name or a Unix socket, stays.
std::string network_of(const std::string& address);

}  // namespace lockstep

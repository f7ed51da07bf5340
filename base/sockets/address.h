// SPDX-License-Identifier: Apache-2.0
// Socket addresses as users write them: "10.0.0.2:50053", "[fd00::2]:50053", "localhost:8000".
// Names are not resolved here.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace lockstep {

// "10.0.0.2" and "50053"; the host of "[fd00::2]:1" is without brackets.
struct HostAndPort {
  std::string host, port;
};
// kInvalidArgument: not HOST:PORT with a port of 0 to 65535. The host may be empty.
absl::StatusOr<HostAndPort> split_address(const std::string& address);
std::string join_address(const std::string& host, const std::string& port);

// Unix sockets as gRPC writes them: "unix:/path", or "unix-abstract:name", which has no file.
inline constexpr std::string_view kUnixPrefix = "unix:";
inline constexpr std::string_view kAbstractPrefix = "unix-abstract:";
bool is_unix_address(std::string_view address);

// An address of 127.0.0.0/8, ::1 or "localhost": reachable from this machine only.
bool is_loopback_host(const std::string& host);
// "0.0.0.0", "::" or "": every address of this machine.
bool is_any_host(const std::string& host);

// The numeric address of this end of a socket; "" if it has none, e.g. for a Unix socket. An IPv4
// address on an IPv6 socket is written as IPv4.
std::string local_address(int socket);
// The address of the other end.
std::string peer_address(int socket);
// Whether this end is reachable from this machine only: a loopback address or a Unix socket.
bool is_on_loopback(int socket);
// The part of an address that identifies one user: "10.0.0.2" of "10.0.0.2:40123"; for IPv6 the
// first 64 bits, which name a network: "fd00::". Any other text (a name, a Unix socket) is returned
// unchanged.
std::string network_of(const std::string& address);

}  // namespace lockstep

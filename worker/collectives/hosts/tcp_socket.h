// SPDX-License-Identifier: Apache-2.0
// What the data connections between hosts need of TCP. Addresses are those of
// base/sockets/address.h; whoever listens may give a name. Nothing of these sockets blocks.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/sockets/file_descriptor.h"

namespace lockstep {

// Port 0 takes a free one. kInvalidArgument: no such address on this machine, or it is taken.
absl::StatusOr<FileDescriptor> listen_tcp(const std::string& address, int backlog);

// The next caller, or an invalid descriptor if there is none now. Connections have TCP_NODELAY and
// are not paced by BBR.
absl::StatusOr<FileDescriptor> accept_tcp(const FileDescriptor& listener);

// Begins to connect: when the socket can be written, connect_error() says what came of it.
// kUnavailable: it cannot even be tried.
absl::StatusOr<FileDescriptor> dial_tcp(const std::string& address);
// 0, or an errno.
int connect_error(const FileDescriptor& socket);

// The host part of the address from which this machine would call `address`: "10.0.0.2".
absl::StatusOr<std::string> local_host_towards(const std::string& address);

// The network interface that has this address, a number: "eth0". "": none of this machine has it.
std::string interface_of(const std::string& host);

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// The TCP of data connections between hosts. Addresses are those of base/sockets/address.h; a
// listening address may be a name. None of these sockets blocks.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/sockets/file_descriptor.h"

namespace lockstep {

// Port 0 takes a free one. kInvalidArgument: no such address on this machine, or it is in use.
absl::StatusOr<FileDescriptor> listen_tcp(const std::string& address, int backlog);

// The next connection, or an invalid descriptor if there is none now. Connections have TCP_NODELAY
// and are not paced by BBR.
absl::StatusOr<FileDescriptor> accept_tcp(const FileDescriptor& listener);

// Begins to connect: when the socket is writable, connect_error() returns the outcome.
// kUnavailable: connecting could not even begin.
absl::StatusOr<FileDescriptor> dial_tcp(const std::string& address);
// 0, or an errno.
int connect_error(const FileDescriptor& socket);

// The host part of this machine's address on a connection to `address`: "10.0.0.2".
absl::StatusOr<std::string> local_host_towards(const std::string& address);

// The network interface that has this numeric address: "eth0". "" if none of this machine has it.
std::string interface_of(const std::string& host);

}  // namespace lockstep

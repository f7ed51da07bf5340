// SPDX-License-Identifier: Apache-2.0
// The Unix sockets for the meeting of ranks: names without files, messages that arrive whole
// (SOCK_SEQPACKET), and a descriptor that is passed with a message.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/sockets/file_descriptor.h"

namespace lockstep {

// Listens under a name of Linux's abstract namespace; the name ends when its last descriptor is
// closed. All users of the network namespace can connect: check each caller's user. kAlreadyExists
// if another process has the name. None of these sockets blocks.
absl::StatusOr<FileDescriptor> listen_at(const std::string& name, int backlog);
// kNotFound while no process listens there, kUnavailable if too many wait: try again.
absl::StatusOr<FileDescriptor> connect_to(const std::string& name);
// The next caller, or an invalid descriptor if there is none now.
absl::StatusOr<FileDescriptor> accept_from(const FileDescriptor& listener);

// Whether the process at the other end runs as our user.
bool peer_is_same_user(const FileDescriptor& socket);

// One message, with a descriptor unless `passed` is negative. False if the peer does not take it.
bool send_message(const FileDescriptor& socket, std::span<const char> message, int passed);

// receive_message() reads one message into `buffer`, truncated to its size; 0 bytes: the peer has
// gone. A descriptor in the message is put in *passed. If `passed` is null, the descriptor is
// closed.
struct Received {
  enum { kMessage, kNothing, kGone } outcome;
  size_t bytes = 0;
  bool descriptor_lost = false;  // A descriptor was sent, but this process may not open one more.
};
Received receive_message(const FileDescriptor& socket, std::span<char> buffer,
                         FileDescriptor* passed);

}  // namespace lockstep

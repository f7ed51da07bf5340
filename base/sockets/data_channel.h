// SPDX-License-Identifier: Apache-2.0
// The bytes of one data connection between two hosts, plain or not. Nothing of it blocks.
#pragma once

#include <poll.h>
#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "absl/status/statusor.h"
#include "base/sockets/file_descriptor.h"

namespace lockstep {

// One thread at a time, interrupt() any. An error is a clause about the other side, after which the
// connection is of no more use: kUnavailable, it has ended; kDataLoss, what came is not what a peer
// would send.
class DataChannel {
 public:
  // A TCP connection, non-blocking.
  explicit DataChannel(FileDescriptor socket) : socket_(std::move(socket)) {}
  virtual ~DataChannel() = default;
  DataChannel(const DataChannel&) = delete;
  DataChannel& operator=(const DataChannel&) = delete;

  // How many of the first bytes are with the system; 0: it takes none now. What is not begins the
  // next send, whose parts are no fewer.
  virtual absl::StatusOr<size_t> send(std::span<const iovec> parts) = 0;
  // How many bytes came, to the parts in their order; 0: there are none now. Before a thread sleeps
  // it reads until then: what is kept here wakes nobody.
  virtual absl::StatusOr<size_t> receive(std::span<const iovec> parts) = 0;
  // What poll() is to wait for where these gave 0, or were not tried yet.
  virtual short events(bool sends, bool receives) const = 0;

  // Ends the connection for both sides. Never blocks; async-signal-safe.
  void interrupt() const;
  const FileDescriptor& socket() const { return socket_; }

 private:
  const FileDescriptor socket_;
};

// As the bytes are.
std::unique_ptr<DataChannel> plain_channel(FileDescriptor socket);

}  // namespace lockstep

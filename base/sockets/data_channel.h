// SPDX-License-Identifier: Apache-2.0
// The bytes of one data connection between two hosts, plain or encrypted. No function blocks.
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

// One thread at a time; interrupt() from any thread. An error is a clause about the other side,
// such as "it closed its connection"; the connection is then unusable. kUnavailable: the connection
// has ended; kDataLoss: the bytes received are not what a peer would send.
class DataChannel {
 public:
  // `socket`: a TCP connection, non-blocking.
  explicit DataChannel(FileDescriptor socket) : socket_(std::move(socket)) {}
  virtual ~DataChannel() = default;
  DataChannel(const DataChannel&) = delete;
  DataChannel& operator=(const DataChannel&) = delete;

  // Returns the number of bytes, from the first one on, that the system took; 0: it takes none now.
  // The next call must begin with all bytes that were not taken, and may add more.
  virtual absl::StatusOr<size_t> send(std::span<const iovec> parts) = 0;
  // Returns the number of bytes received into the parts, in order; 0: none are available now. A
  // thread must not sleep before receive() has returned 0: bytes buffered here wake no thread.
  virtual absl::StatusOr<size_t> receive(std::span<const iovec> parts) = 0;
  // The events to poll() for after send() or receive() returned 0, or before the first call.
  virtual short events(bool sends, bool receives) const = 0;

  // Ends the connection for both sides. Never blocks; async-signal-safe.
  void interrupt() const;
  const FileDescriptor& socket() const { return socket_; }

 private:
  const FileDescriptor socket_;
};

// A channel that does not encrypt.
std::unique_ptr<DataChannel> plain_channel(FileDescriptor socket);

}  // namespace lockstep

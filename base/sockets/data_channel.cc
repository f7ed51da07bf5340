// SPDX-License-Identifier: Apache-2.0
#include "base/sockets/data_channel.h"

#include <sys/socket.h>

#include <cerrno>

#include "base/status.h"

namespace lockstep {
namespace {

msghdr header_of(std::span<const iovec> parts) {
  msghdr header{};
  header.msg_iov = const_cast<iovec*>(parts.data());
  header.msg_iovlen = parts.size();
  return header;
}

bool is_later(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

class PlainChannel final : public DataChannel {
 public:
  using DataChannel::DataChannel;

  absl::StatusOr<size_t> send(std::span<const iovec> parts) override {
    const msghdr message = header_of(parts);
    const ssize_t bytes = sendmsg(socket().get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (bytes >= 0) return static_cast<size_t>(bytes);
    if (is_later(errno)) return 0;
    return unavailable("{}", error_text(errno));
  }

  absl::StatusOr<size_t> receive(std::span<const iovec> parts) override {
    msghdr message = header_of(parts);
    const ssize_t bytes = recvmsg(socket().get(), &message, MSG_DONTWAIT);
    if (bytes > 0) return static_cast<size_t>(bytes);
    if (bytes == 0) return unavailable("it closed its connection");
    if (is_later(errno)) return 0;
    return unavailable("{}", error_text(errno));
  }

  short events(bool sends, bool receives) const override {
    return static_cast<short>((sends ? POLLOUT : 0) | (receives ? POLLIN : 0));
  }
};

}  // namespace

void DataChannel::interrupt() const { shutdown(socket_.get(), SHUT_RDWR); }

std::unique_ptr<DataChannel> plain_channel(FileDescriptor socket) {
  return std::make_unique<PlainChannel>(std::move(socket));
}

}  // namespace lockstep

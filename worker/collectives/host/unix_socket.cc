// SPDX-License-Identifier: Apache-2.0
// Unix sockets. None of them blocks or raises SIGPIPE.
#include "worker/collectives/host/unix_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/status.h"

namespace lockstep {
namespace {

// An abstract name begins with a zero byte. No byte ends it: `bytes` says where it ends.
struct Address {
  sockaddr_un name{.sun_family = AF_UNIX, .sun_path = {}};
  socklen_t bytes = 0;

  const sockaddr* generic() const { return reinterpret_cast<const sockaddr*>(&name); }
};

absl::StatusOr<Address> address_of(const std::string& name) {
  Address address;
  if (name.size() + 1 > sizeof(address.name.sun_path)) {
    return invalid_argument("the name of a socket must have at most {} bytes, found {}",
                            sizeof(address.name.sun_path) - 1, name.size());
  }
  std::memcpy(address.name.sun_path + 1, name.data(), name.size());
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

absl::StatusOr<FileDescriptor> make_socket() {
  FileDescriptor fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return resource_exhausted("no Unix socket: {}", error_text(errno));
  return fd;
}

}  // namespace

absl::StatusOr<FileDescriptor> listen_at(const std::string& name, int backlog) {
  ASSIGN_OR_RETURN(const Address address, address_of(name));
  ASSIGN_OR_RETURN(FileDescriptor fd, make_socket());
  if (bind(fd.get(), address.generic(), address.bytes) == 0 && listen(fd.get(), backlog) == 0) {
    return fd;
  }
  if (errno == EADDRINUSE) {
    return absl::AlreadyExistsError(
        "another process already listens as the first rank of this group on this host");
  }
  return failed_precondition("cannot listen on a Unix socket: {}", error_text(errno));
}

absl::StatusOr<FileDescriptor> connect_to(const std::string& name) {
  ASSIGN_OR_RETURN(const Address address, address_of(name));
  ASSIGN_OR_RETURN(FileDescriptor fd, make_socket());
  if (connect(fd.get(), address.generic(), address.bytes) == 0) return fd;
  const int error = errno;
  if (error == ECONNREFUSED) return absl::NotFoundError("no process listens");
  if (error == EAGAIN || error == EINTR)
    return unavailable("too many connections wait: {}", error_text(error));
  return failed_precondition("cannot connect to the first rank of this host: {}",
                             error_text(error));
}

absl::StatusOr<FileDescriptor> accept_from(const FileDescriptor& listener) {
  FileDescriptor fd(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!fd.valid() && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
    return resource_exhausted("cannot accept a rank: {}", error_text(errno));
  }
  return fd;
}

bool peer_is_same_user(const FileDescriptor& socket) {
  ucred peer{};
  socklen_t bytes = sizeof(peer);
  return getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 &&
         peer.uid == geteuid();
}

bool send_message(const FileDescriptor& socket, std::span<const char> message, int passed) {
  iovec part{const_cast<char*>(message.data()), message.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (passed >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    cmsghdr* extra = CMSG_FIRSTHDR(&header);
    extra->cmsg_level = SOL_SOCKET;
    extra->cmsg_type = SCM_RIGHTS;
    extra->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(extra), &passed, sizeof(int));
  }
  return sendmsg(socket.get(), &header, MSG_NOSIGNAL) == static_cast<ssize_t>(message.size());
}

Received receive_message(const FileDescriptor& socket, std::span<char> buffer,
                         FileDescriptor* passed) {
  iovec part{buffer.data(), buffer.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (passed != nullptr) {  // Without room for control data the kernel closes a passed descriptor.
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
  }
  const ssize_t bytes = recvmsg(socket.get(), &header, MSG_CMSG_CLOEXEC);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return {.outcome = Received::kNothing};
  if (bytes <= 0) return {.outcome = Received::kGone};
  const cmsghdr* extra = passed == nullptr ? nullptr : CMSG_FIRSTHDR(&header);
  if (extra != nullptr && extra->cmsg_level == SOL_SOCKET && extra->cmsg_type == SCM_RIGHTS &&
      extra->cmsg_len == CMSG_LEN(sizeof(int))) {
    int fd;
    std::memcpy(&fd, CMSG_DATA(extra), sizeof(int));
    *passed = FileDescriptor(fd);
  }
  return {.outcome = Received::kMessage,
          .bytes = static_cast<size_t>(bytes),
          .descriptor_lost = passed != nullptr && (header.msg_flags & MSG_CTRUNC) != 0};
}

}  // namespace lockstep

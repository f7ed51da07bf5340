// SPDX-License-Identifier: Apache-2.0
// Unix sockets, none of which ever blocks or raises SIGPIPE.
#include "worker/collectives/unix_socket.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <system_error>

#include "base/status.h"

namespace lockstep {
namespace {

std::string error_text(int error) { return std::generic_category().message(error); }

absl::StatusOr<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  if (path.size() >= sizeof(address.sun_path)) {
    return invalid_argument(
        "the path of the socket on which ranks meet has {} bytes, Unix sockets allow {}: give a "
        "shorter folder than {}",
        path.size(), sizeof(address.sun_path) - 1, path.substr(0, path.rfind('/')));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

absl::StatusOr<FileDescriptor> make_socket() {
  FileDescriptor fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return resource_exhausted("no Unix socket: {}", error_text(errno));
  return fd;
}

const sockaddr* generic(const sockaddr_un& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) close(fd_);
}

absl::Status prepare_private_folder(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return failed_precondition("cannot make the folder {}, in which ranks meet: {}", path,
                               error_text(errno));
  }
  // Checked when just made as well: in a shared /tmp somebody else may have been quicker. Once it
  // is ours, the sticky bit of /tmp keeps it so.
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) {
    return failed_precondition("cannot look at the folder {}, in which ranks meet: {}", path,
                               error_text(errno));
  }
  if (!S_ISDIR(info.st_mode)) {
    return failed_precondition("{}, in which ranks meet, is no folder: remove it", path);
  }
  if (info.st_uid != geteuid() || (info.st_mode & 077) != 0) {
    return failed_precondition(
        "the folder {}, in which ranks meet, belongs to user {} with mode {:o}, wanted user {} and "
        "700: remove it or set XDG_RUNTIME_DIR",
        path, info.st_uid, info.st_mode & 07777, geteuid());
  }
  return absl::OkStatus();
}

absl::StatusOr<FileDescriptor> listen_at(const std::string& path, int backlog) {
  ASSIGN_OR_RETURN(const sockaddr_un address, address_of(path));
  ASSIGN_OR_RETURN(FileDescriptor fd, make_socket());
  int bound = bind(fd.get(), generic(address), sizeof(address));
  if (bound != 0 && errno == EADDRINUSE) {
    const absl::StatusOr<FileDescriptor> other = connect_to(path);
    if (!absl::IsNotFound(other.status())) {
      return absl::AlreadyExistsError("another rank 0 of this group is meeting");
    }
    unlink(path.c_str());
    bound = bind(fd.get(), generic(address), sizeof(address));
  }
  if (bound != 0 || listen(fd.get(), backlog) != 0) {
    return failed_precondition("cannot listen in {}: {}", path.substr(0, path.rfind('/')),
                               error_text(errno));
  }
  return fd;
}

absl::StatusOr<FileDescriptor> connect_to(const std::string& path) {
  ASSIGN_OR_RETURN(const sockaddr_un address, address_of(path));
  ASSIGN_OR_RETURN(FileDescriptor fd, make_socket());
  if (connect(fd.get(), generic(address), sizeof(address)) == 0) return fd;
  const int error = errno;
  if (error == ENOENT || error == ECONNREFUSED) return absl::NotFoundError("nobody listens");
  if (error == EAGAIN || error == EINTR) return unavailable("too many wait: {}", error_text(error));
  return failed_precondition("cannot connect in {}: {}", path.substr(0, path.rfind('/')),
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
  if (passed != nullptr) {  // With no room for control data the kernel closes what came.
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

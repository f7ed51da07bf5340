// SPDX-License-Identifier: Apache-2.0
#include "worker/collectives/hosts/tcp_socket.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/sockets/address.h"
#include "base/status.h"

namespace lockstep {
namespace {

using Found = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

absl::StatusOr<Found> look_up(const std::string& address, int kind, int flags) {
  ASSIGN_OR_RETURN(const HostAndPort parts, split_address(address));
  addrinfo hints{};
  hints.ai_socktype = kind;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const char* host = parts.host.empty() ? nullptr : parts.host.c_str();
  const int error = getaddrinfo(host, parts.port.c_str(), &hints, &found);
  if (error != 0) return unavailable("{}: {}", printable(address), gai_strerror(error));
  return Found(found, &freeaddrinfo);
}

absl::StatusOr<FileDescriptor> make_socket(const addrinfo& address) {
  FileDescriptor fd(
      socket(address.ai_family, address.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return resource_exhausted("no socket: {}", error_text(errno));
  return fd;
}

void set_option(const FileDescriptor& fd, int level, int option) {
  const int yes = 1;
  setsockopt(fd.get(), level, option, &yes, sizeof(yes));
}

// BBR paces a connection by the rate of a steady flow. But a collective sends a burst after a
// pause, so its bytes would wait for the pacer, and arrive out of order. A system may forbid cubic;
// it always allows reno.
void leave_bbr(const FileDescriptor& fd) {
  char name[16] = "";  // TCP_CA_NAME_MAX
  socklen_t bytes = sizeof(name);
  if (getsockopt(fd.get(), IPPROTO_TCP, TCP_CONGESTION, name, &bytes) != 0) return;
  if (!std::string_view(name, strnlen(name, bytes)).starts_with("bbr")) return;
  for (const std::string_view other : {"cubic", "reno"}) {
    const auto size = static_cast<socklen_t>(other.size());
    if (setsockopt(fd.get(), IPPROTO_TCP, TCP_CONGESTION, other.data(), size) == 0) return;
  }
}

void make_prompt(const FileDescriptor& fd) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY);
  leave_bbr(fd);
}

}  // namespace

absl::StatusOr<FileDescriptor> listen_tcp(const std::string& address, int backlog) {
  ASSIGN_OR_RETURN(const Found found, look_up(address, SOCK_STREAM, AI_PASSIVE));
  ASSIGN_OR_RETURN(FileDescriptor fd, make_socket(*found));
  set_option(fd, SOL_SOCKET, SO_REUSEADDR);  // Connections of an earlier process may linger.
  if (bind(fd.get(), found->ai_addr, found->ai_addrlen) == 0 && listen(fd.get(), backlog) == 0) {
    return fd;
  }
  return invalid_argument(
      "could not listen on {}: {}; the port is in use, or the address is not this machine's: "
      "choose another",
      printable(address), error_text(errno));
}

absl::StatusOr<FileDescriptor> accept_tcp(const FileDescriptor& listener) {
  FileDescriptor fd(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (fd.valid()) make_prompt(fd);
  if (!fd.valid() && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
    return resource_exhausted("cannot accept a connection: {}", error_text(errno));
  }
  return fd;
}

absl::StatusOr<FileDescriptor> dial_tcp(const std::string& address) {
  ASSIGN_OR_RETURN(const Found found, look_up(address, SOCK_STREAM, AI_NUMERICHOST));
  ASSIGN_OR_RETURN(FileDescriptor fd, make_socket(*found));
  make_prompt(fd);
  if (connect(fd.get(), found->ai_addr, found->ai_addrlen) == 0 || errno == EINPROGRESS) return fd;
  return unavailable("{}", error_text(errno));
}

int connect_error(const FileDescriptor& socket) {
  int error = 0;
  socklen_t bytes = sizeof(error);
  return getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 ? error : errno;
}

// Connecting a datagram socket sends nothing, but gives the socket a local address.
absl::StatusOr<std::string> local_host_towards(const std::string& address) {
  ASSIGN_OR_RETURN(const Found found, look_up(address, SOCK_DGRAM, 0));
  ASSIGN_OR_RETURN(const FileDescriptor fd, make_socket(*found));
  if (connect(fd.get(), found->ai_addr, found->ai_addrlen) != 0) {
    return unavailable("{}: {}", printable(address), error_text(errno));
  }
  ASSIGN_OR_RETURN(const HostAndPort local, split_address(local_address(fd.get())));
  return local.host;
}

std::string interface_of(const std::string& host) {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> all(first, &freeifaddrs);
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    const int family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t bytes = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    char text[NI_MAXHOST];
    if (getnameinfo(one->ifa_addr, bytes, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) == 0 &&
        host == text) {
      return one->ifa_name;
    }
  }
  return "";
}

}  // namespace lockstep

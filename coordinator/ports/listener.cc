// SPDX-License-Identifier: Apache-2.0
#include "coordinator/ports/listener.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/sockets/address.h"
#include "base/status.h"
#include "base/system/descriptors.h"

namespace lockstep {
namespace {

constexpr int64_t kMaxConnections = 8192;
constexpr int kBacklog = 4096;
constexpr std::chrono::milliseconds kPause{20};  // A pause when the system is out of a resource.

// Whether the peer is a process of another user, except root: any user may connect to an abstract
// name. False for TCP, which has no credentials. The user is compared and not the pid, which is 0
// for a peer in another PID namespace.
bool is_another_users(int connection) {
  ucred peer = {};
  socklen_t bytes = sizeof peer;
  return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 &&
         peer.uid != geteuid() && peer.uid != 0;
}

absl::Status cannot_listen(const std::string& address, int error) {
  const char* fix = error == EADDRINUSE ? "choose another port, or end the program that uses it"
                    : error == EADDRNOTAVAIL ? "choose an address of this machine"
                    : error == EACCES        ? "choose a port of 1024 and above"
                                             : "choose another";
  return invalid_argument("could not listen on {}: {}; {}", address, error_text(error), fix);
}

// A listening socket, or -1 with errno set.
int listen_at(const sockaddr* address, socklen_t bytes) {
  const int socket = ::socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket < 0) return -1;
  const int yes = 1;
  // Bind even if connections of an earlier process linger. SO_REUSEPORT stays off: a second process
  // must not share the port.
  if (address->sa_family != AF_UNIX) {
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  }
  if (::bind(socket, address, bytes) == 0 && ::listen(socket, kBacklog) == 0) return socket;
  const int error = errno;
  ::close(socket);
  errno = error;
  return -1;
}

in_port_t port_of(int socket) {
  sockaddr_storage bound = {};
  socklen_t bytes = sizeof bound;
  getsockname(socket, reinterpret_cast<sockaddr*>(&bound), &bytes);
  return bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                     : reinterpret_cast<sockaddr_in*>(&bound)->sin_port;
}

void set_port(sockaddr* address, in_port_t port) {
  if (address->sa_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(address)->sin6_port = port;
  } else {
    reinterpret_cast<sockaddr_in*>(address)->sin_port = port;
  }
}

// Closes with a reset: a refused connection does not linger in the system.
void refuse(int connection) {
  const linger now = {.l_onoff = 1, .l_linger = 0};
  setsockopt(connection, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  ::close(connection);
}

int open_spare() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }

}  // namespace

int64_t connections_within_limit() {
  const int64_t limit = descriptor_limit();
  const int64_t descriptors = limit - std::max<int64_t>(limit / 4, 40);
  return std::clamp<int64_t>(descriptors, 8, kMaxConnections);
}

bool is_loopback(const std::string& address) {
  if (is_unix_address(address)) return true;
  const absl::StatusOr<HostAndPort> parts = split_address(address);
  return parts.ok() && is_loopback_host(parts->host);
}

absl::StatusOr<std::unique_ptr<Listener>> Listener::bind(const std::string& address,
                                                         int64_t max_connections, bool shares) {
  std::unique_ptr<Listener> listener(new Listener(max_connections, shares));
  RETURN_IF_ERROR(is_unix_address(address) ? listener->bind_unix(address)
                                           : listener->bind_tcp(address));
  listener->wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  listener->spare_ = open_spare();
  if (listener->wake_ < 0 || listener->spare_ < 0) {
    return resource_exhausted("{}: out of descriptors, the limit is {}; raise it (ulimit -n)",
                              address, descriptor_limit());
  }
  return listener;
}

absl::Status Listener::bind_unix(const std::string& address) {
  const bool is_abstract = address.starts_with(kAbstractPrefix);
  const std::string path = address.substr(address.find(':') + 1);
  sockaddr_un place = {};
  place.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof place.sun_path) {
    return invalid_argument("{}: must have a path of 1 to {} bytes, found {}", address,
                            sizeof place.sun_path - 1, path.size());
  }
  // An abstract name begins with a zero byte. No byte ends it: its length is given.
  std::memcpy(place.sun_path + (is_abstract ? 1 : 0), path.data(), path.size());
  const size_t bytes =
      is_abstract ? offsetof(sockaddr_un, sun_path) + 1 + path.size() : sizeof place;
  const int socket = listen_at(reinterpret_cast<sockaddr*>(&place), static_cast<socklen_t>(bytes));
  if (socket < 0) return cannot_listen(address, errno);
  sockets_.push_back(socket);
  address_ = address;
  return absl::OkStatus();
}

absl::Status Listener::bind_tcp(const std::string& address) {
  ASSIGN_OR_RETURN(const HostAndPort parts, split_address(address));
  const addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(parts.host.c_str(), parts.port.c_str(), &hints, &found);
  if (failed != 0) return invalid_argument("{}: {}", address, gai_strerror(failed));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, freeaddrinfo);
  int error = EADDRNOTAVAIL;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (!sockets_.empty()) set_port(one->ai_addr, port_of(sockets_[0]));
    if (const int socket = listen_at(one->ai_addr, one->ai_addrlen); socket >= 0) {
      sockets_.push_back(socket);
      continue;
    }
    error = errno;
    // A name may have an address that this machine lacks; a port in use is an error at any address.
    if (error != EADDRNOTAVAIL && error != EAFNOSUPPORT) return cannot_listen(address, error);
  }
  if (sockets_.empty()) return cannot_listen(address, error);
  address_ = join_address(parts.host, std::to_string(ntohs(port_of(sockets_[0]))));
  return absl::OkStatus();
}

void Listener::stop() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    LOCKSTEP_CHECK(write(wake_, &one, sizeof one) == sizeof one);
    thread_.join();
  }
  for (const int socket : sockets_) ::close(socket);
  sockets_.clear();
  for (int* descriptor : {&wake_, &spare_}) {
    if (*descriptor >= 0) ::close(std::exchange(*descriptor, -1));
  }
}

void Listener::start(std::function<void(int)> hand_over, CountOpen count_open) {
  LOCKSTEP_CHECK(!thread_.joinable());
  hand_over_ = std::move(hand_over);
  count_open_ = std::move(count_open);
  thread_ = std::thread([this] { run(); });
}

void Listener::run() {
  std::vector<pollfd> watched = {{.fd = wake_, .events = POLLIN}};
  for (const int socket : sockets_) watched.push_back({.fd = socket, .events = POLLIN});
  while (true) {
    if (poll(watched.data(), watched.size(), -1) < 0) continue;  // EINTR
    if (watched[0].revents != 0) break;
    for (size_t i = 1; i < watched.size(); ++i) {
      if (watched[i].revents != 0) accept_one(watched[i].fd);
    }
  }
  // Clients of these connections may have sent a request, which closing the socket would lose.
  for (const int socket : sockets_) {
    for (int i = 0; i < kBacklog && accept_one(socket); ++i) {
    }
  }
}

bool Listener::accept_one(int socket) {
  const int connection = accept4(socket, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (connection >= 0) {
    take(connection);
    return true;
  }
  switch (errno) {
    case EMFILE:
    case ENFILE:
      refuse_with_spare(socket);
      break;
    case ENOBUFS:
    case ENOMEM:
      pause();
      break;
    default:  // EAGAIN, or the client is gone: only this connection is affected.
      break;
  }
  return false;
}

void Listener::take(int connection) {
  if (address_.starts_with(kAbstractPrefix) && is_another_users(connection)) {
    return refuse(connection);
  }
  const OpenConnections open = count_open_(network_of(peer_address(connection)));
  const bool is_full = open.all >= max_connections_ ||
                       (shares_ && open.of_network >= max_connections_ - max_connections_ / 8);
  if (is_full) return refuse_above_bound(connection, open);
  const int yes = 1;
  setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);  // Fails on a Unix socket.
  hand_over_(connection);
}

void Listener::refuse_above_bound(int connection, const OpenConnections& open) {
  refuse(connection);
  if (const int64_t count = refusals_.count(); count > 0) {
    spdlog::warn(
        "{}: {} connections refused: {} are open, {} of them from one network; {} are allowed",
        address_, count, open.all, open.of_network, max_connections_);
  }
}

void Listener::refuse_with_spare(int socket) {
  if (const int64_t count = refusals_.count(); count > 0) {
    spdlog::warn("{}: {} connections refused: all {} descriptors of this process are in use",
                 address_, count, descriptor_limit());
  }
  if (spare_ >= 0) ::close(spare_);
  const int connection = accept4(socket, nullptr, nullptr, SOCK_CLOEXEC);
  if (connection >= 0) refuse(connection);
  spare_ = open_spare();
  if (connection < 0 || spare_ < 0) pause();  // Another thread took the descriptor.
}

void Listener::pause() {
  pollfd wake = {.fd = wake_, .events = POLLIN};
  poll(&wake, 1, static_cast<int>(kPause.count()));
}

}  // namespace lockstep

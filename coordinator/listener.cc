// SPDX-License-Identifier: Apache-2.0
#include "coordinator/listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/descriptors.h"
#include "base/status.h"

namespace lockstep {
namespace {

constexpr int64_t kMaxConnections = 8192;
constexpr int kBacklog = 4096;
constexpr std::chrono::milliseconds kPause{20};         // The system is short of something.
constexpr std::chrono::milliseconds kLookInterval{10};  // Between looks for closed connections.
constexpr char kUnixPrefix[] = "unix:";

absl::Status cannot_listen(const std::string& address, int error) {
  return invalid_argument(
      "could not listen on {}: {}; the port is in use, or the address is not this machine's: "
      "choose another",
      address, error_text(error));
}

// A listening socket, or -1 and errno.
int listen_at(const sockaddr* address, socklen_t bytes) {
  const int socket = ::socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket < 0) return -1;
  const int yes = 1;
  // Bind although connections of an earlier process linger. SO_REUSEPORT stays off.
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

// 0 where the descriptor is closed or no socket.
uint64_t inode_of(int descriptor) {
  struct stat status = {};
  return fstat(descriptor, &status) == 0 && S_ISSOCK(status.st_mode) ? status.st_ino : 0;
}

// As Listener::keep() has it.
std::string peer_of(int connection) {
  sockaddr_storage peer = {};
  socklen_t bytes = sizeof peer;
  char text[INET6_ADDRSTRLEN] = {};
  if (getpeername(connection, reinterpret_cast<sockaddr*>(&peer), &bytes) != 0) return "";
  if (peer.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(peer);
    inet_ntop(AF_INET, &four.sin_addr, text, sizeof text);
    return fmt::format("{}:{}", text, ntohs(four.sin_port));
  }
  if (peer.ss_family != AF_INET6) return "";
  const auto& six = reinterpret_cast<const sockaddr_in6&>(peer);
  if (IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) {
    inet_ntop(AF_INET, &six.sin6_addr.s6_addr[12], text, sizeof text);
    return fmt::format("{}:{}", text, ntohs(six.sin6_port));
  }
  inet_ntop(AF_INET6, &six.sin6_addr, text, sizeof text);
  const std::string scope = six.sin6_scope_id == 0 ? "" : fmt::format("%{}", six.sin6_scope_id);
  return fmt::format("[{}{}]:{}", text, scope, ntohs(six.sin6_port));
}

// Closed with a reset: nothing lingers in the system for a connection that was refused.
void refuse(int connection) {
  const linger now = {.l_onoff = 1, .l_linger = 0};
  setsockopt(connection, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  ::close(connection);
}

int open_spare() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }

}  // namespace

int64_t connections_within_limit() {
  const int64_t limit = descriptor_limit();
  return std::clamp<int64_t>(limit - std::max<int64_t>(limit / 4, 40), 8, kMaxConnections);
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address.starts_with("localhost:") ||
         address.starts_with("[::1]:") || address.starts_with(kUnixPrefix);
}

absl::StatusOr<std::unique_ptr<Listener>> Listener::bind(const std::string& address,
                                                         int64_t max_connections,
                                                         WhenFull when_full) {
  std::unique_ptr<Listener> listener(new Listener(max_connections, when_full));
  RETURN_IF_ERROR(address.starts_with(kUnixPrefix) ? listener->bind_unix(address)
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
  const std::string path = address.substr(std::strlen(kUnixPrefix));
  sockaddr_un place = {};
  place.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof place.sun_path) {
    return invalid_argument("{}: want a path of 1 to {} bytes, found {}", address,
                            sizeof place.sun_path - 1, path.size());
  }
  std::memcpy(place.sun_path, path.data(), path.size());
  const int socket = listen_at(reinterpret_cast<sockaddr*>(&place), sizeof place);
  if (socket < 0) return cannot_listen(address, errno);
  sockets_.push_back(socket);
  address_ = address;
  return absl::OkStatus();
}

absl::Status Listener::bind_tcp(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return invalid_argument("{}: want HOST:PORT", address);
  const std::string written = address.substr(0, colon);
  const bool bracketed = written.starts_with("[") && written.ends_with("]");
  const std::string host = bracketed ? written.substr(1, written.size() - 2) : written;
  const addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(host.c_str(), address.substr(colon + 1).c_str(), &hints, &found);
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
    // A name may have an address that this machine lacks; a port in use is an error at any.
    if (error != EADDRNOTAVAIL && error != EAFNOSUPPORT) return cannot_listen(address, error);
  }
  if (sockets_.empty()) return cannot_listen(address, error);
  address_ = fmt::format("{}:{}", written, ntohs(port_of(sockets_[0])));
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

void Listener::start(std::function<void(int)> hand_over, std::function<int64_t()> count_open) {
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
    if (watched[0].revents != 0) return;
    for (size_t i = 1; i < watched.size(); ++i) {
      if (watched[i].revents != 0) accept_one(watched[i].fd);
    }
  }
}

void Listener::accept_one(int socket) {
  const int connection = accept4(socket, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (connection >= 0) return take(connection);
  switch (errno) {
    case EMFILE:
    case ENFILE:
      return refuse_with_spare(socket);
    case ENOBUFS:
    case ENOMEM:
      return pause();
    default:  // EAGAIN, or the client went away: each an affair of one connection.
      return;
  }
}

void Listener::take(int connection) {
  {
    const MutexLock lock(&mutex_);
    if (is_full() && !close_oldest()) return refuse_above_bound(connection);
    std::string peer = peer_of(connection);
    const bool kept = peer.empty();
    if (count_open_ == nullptr) {
      open_[connection] = {inode_of(connection), ++accepted_, std::move(peer), kept};
    }
  }
  const int yes = 1;
  setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);  // Fails on a Unix socket.
  hand_over_(connection);
}

void Listener::refuse_above_bound(int connection) {
  refuse(connection);
  if (const int64_t count = refusals_.count(); count > 0) {
    spdlog::warn("{}: {} connections refused: {} are open, the most that are allowed", address_,
                 count, max_connections_);
  }
}

void Listener::keep(const std::string& peer) {
  const MutexLock lock(&mutex_);
  for (auto& [descriptor, connection] : open_) connection.kept |= connection.peer == peer;
}

// Its owner sees that it is over, and closes the descriptor.
bool Listener::close_oldest() {
  if (when_full_ == WhenFull::kRefuse) return false;
  auto oldest = open_.end();
  for (auto one = open_.begin(); one != open_.end(); ++one) {
    if (one->second.kept) continue;
    if (oldest == open_.end() || one->second.number < oldest->second.number) oldest = one;
  }
  if (oldest == open_.end()) return false;
  const auto& [descriptor, connection] = *oldest;
  if (inode_of(descriptor) == connection.inode) ::shutdown(descriptor, SHUT_RDWR);
  open_.erase(oldest);
  if (const int64_t count = refusals_.count(); count > 0) {
    spdlog::warn("{}: {} connections closed for newer ones: {} are open, the most that are allowed",
                 address_, count, max_connections_);
  }
  return true;
}

bool Listener::is_full() {
  if (count_open_ != nullptr) return count_open_() >= max_connections_;
  if (static_cast<int64_t>(open_.size()) < max_connections_) return false;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_look_ < kLookInterval) return true;
  last_look_ = now;
  forget_closed();
  return static_cast<int64_t>(open_.size()) >= max_connections_;
}

void Listener::forget_closed() {
  std::erase_if(open_,
                [](const auto& entry) { return inode_of(entry.first) != entry.second.inode; });
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
  if (connection < 0 || spare_ < 0) pause();  // Another thread was quicker.
}

void Listener::pause() {
  pollfd wake = {.fd = wake_, .events = POLLIN};
  poll(&wake, 1, static_cast<int>(kPause.count()));
}

}  // namespace lockstep

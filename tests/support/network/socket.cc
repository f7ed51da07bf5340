// SPDX-License-Identifier: Apache-2.0
#include "tests/support/network/socket.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace lockstep::testing {
namespace {

int connect_unix(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  LOCKSTEP_CHECK(path.size() < sizeof address.sun_path);
  std::memcpy(address.sun_path, path.data(), path.size());
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  LOCKSTEP_CHECK(descriptor >= 0);
  LOCKSTEP_CHECK(connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
                 0);
  return descriptor;
}

int connect_tcp(const std::string& address, const std::string& from) {
  const size_t colon = address.rfind(':');
  sockaddr_in place = {};
  place.sin_family = AF_INET;
  place.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(colon + 1))));
  LOCKSTEP_CHECK(inet_pton(AF_INET, address.substr(0, colon).c_str(), &place.sin_addr) == 1);
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  LOCKSTEP_CHECK(descriptor >= 0);
  if (from != "127.0.0.1") {
    sockaddr_in source = {};
    source.sin_family = AF_INET;
    LOCKSTEP_CHECK(inet_pton(AF_INET, from.c_str(), &source.sin_addr) == 1);
    LOCKSTEP_CHECK(bind(descriptor, reinterpret_cast<const sockaddr*>(&source), sizeof source) ==
                   0);
  }
  const int result = connect(descriptor, reinterpret_cast<const sockaddr*>(&place), sizeof place);
  // The peer may accept and close before connect() returns: the test then sees a closed connection.
  LOCKSTEP_CHECK(result == 0 || errno == ECONNRESET);
  return descriptor;
}

}  // namespace

Socket::Socket(const std::string& address, const std::string& from)
    : descriptor_(address.starts_with("unix:") ? connect_unix(address.substr(5))
                                               : connect_tcp(address, from)) {}

Socket::~Socket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool Socket::send(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

void Socket::hang_up() const { shutdown(descriptor_, SHUT_RDWR); }

std::string Socket::receive() const {
  char bytes[65536];
  ssize_t count = 0;
  do {
    count = recv(descriptor_, bytes, sizeof bytes, 0);
  } while (count < 0 && errno == EINTR);
  return count <= 0 ? "" : std::string(bytes, static_cast<size_t>(count));
}

bool Socket::was_closed() const {
  char byte = 0;
  const ssize_t count = recv(descriptor_, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
  return count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR);
}

}  // namespace lockstep::testing

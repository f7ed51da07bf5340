// SPDX-License-Identifier: Apache-2.0
#include "base/tls/channel.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

#include "base/sockets/address.h"

namespace lockstep {
namespace {

constexpr int kSendBuffer = 128 << 10;  // The system allocates twice this much.

Channel::Outcome outcome_of_errno(Channel::Outcome wanted) {
  return errno == EAGAIN || errno == EINTR ? wanted : Channel::Outcome::kFailed;
}

void set(int descriptor, int level, int name, int value) {
  setsockopt(descriptor, level, name, &value, sizeof value);  // Some options fail on a Unix socket.
}

}  // namespace

bool Channel::is_handshaking() const {
  return tls_ != nullptr && SSL_is_init_finished(tls_.get()) == 0;
}

bool Channel::is_abandoned() const {
  if (tls_ == nullptr || SSL_in_before(tls_.get()) == 0) return false;
  pollfd peer = {.fd = descriptor_, .events = POLLRDHUP};
  return poll(&peer, 1, 0) == 1;
}

Channel::Outcome Channel::outcome_of_tls(int result) {
  switch (SSL_get_error(tls_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return Outcome::kWantRead;
    case SSL_ERROR_WANT_WRITE:
      return Outcome::kWantWrite;
    case SSL_ERROR_ZERO_RETURN:
      return Outcome::kEnd;
    default:
      failed_ = true;
      return Outcome::kFailed;
  }
}

Channel::Progress Channel::read(char* bytes, size_t size) {
  if (tls_ != nullptr) {
    ERR_clear_error();
    size_t done = 0;
    const int result = SSL_read_ex(tls_.get(), bytes, size, &done);
    return result == 1 ? Progress{Outcome::kDone, done} : Progress{outcome_of_tls(result)};
  }
  const ssize_t count = recv(descriptor_, bytes, size, 0);
  if (count < 0) return {outcome_of_errno(Outcome::kWantRead)};
  if (count == 0) return {Outcome::kEnd};
  return {Outcome::kDone, static_cast<size_t>(count)};
}

Channel::Progress Channel::write(std::string_view bytes) {
  if (tls_ != nullptr) {
    ERR_clear_error();
    size_t done = 0;
    const int result = SSL_write_ex(tls_.get(), bytes.data(), bytes.size(), &done);
    return result == 1 ? Progress{Outcome::kDone, done} : Progress{outcome_of_tls(result)};
  }
  const ssize_t count = send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (count < 0) return {outcome_of_errno(Outcome::kWantWrite)};
  return {Outcome::kDone, static_cast<size_t>(count)};
}

void Channel::end_writing() {
  if (tls_ != nullptr && !failed_) SSL_shutdown(tls_.get());
  shutdown(descriptor_, SHUT_WR);
}

void Channel::reset_on_close() {
  const linger now = {.l_onoff = 1, .l_linger = 0};
  setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

void set_socket_options(int descriptor) {
  set(descriptor, SOL_SOCKET, SO_SNDBUF, kSendBuffer);
  set(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(descriptor, IPPROTO_TCP, TCP_KEEPCNT, 1);
  set(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, 15'000);
}

std::string peer_name(int descriptor) {
  std::string address = peer_address(descriptor);
  return address.empty() ? "local" : address;
}

}  // namespace lockstep

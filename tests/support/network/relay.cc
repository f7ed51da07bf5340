// SPDX-License-Identifier: Apache-2.0
#include "tests/support/network/relay.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/sockets/address.h"
#include "base/status.h"
#include "worker/collectives/hosts/tcp_socket.h"

namespace lockstep::testing {
namespace {

// Sends all bytes, however long that takes. False: the other end is gone.
bool send_all(const FileDescriptor& to, const char* data, int64_t bytes,
              const std::atomic<bool>& stopping) {
  while (bytes > 0 && !stopping) {
    pollfd polled{.fd = to.get(), .events = POLLOUT, .revents = 0};
    poll(&polled, 1, 10);
    const ssize_t sent = ::send(to.get(), data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EAGAIN) return false;
    if (sent < 0) continue;
    data += sent;
    bytes -= sent;
  }
  return bytes == 0;
}

}  // namespace

Relay::Relay(std::string target) : target_(std::move(target)) {
  absl::StatusOr<FileDescriptor> listener = listen_tcp("127.0.0.1:0", 64);
  EXPECT_TRUE(listener.ok()) << listener.status();
  listener_ = *std::move(listener);
  address_ = local_address(listener_.get());
  thread_ = std::thread([this] { run(); });
}

Relay::~Relay() {
  stopping_ = true;
  thread_.join();
}

void Relay::run() {
  while (!stopping_) {
    std::vector<pollfd> polled = {{.fd = listener_.get(), .events = POLLIN, .revents = 0}};
    for (const Pair& pair : pairs_) {
      polled.push_back({.fd = pair.caller.get(), .events = POLLIN, .revents = 0});
      polled.push_back({.fd = pair.target.get(), .events = POLLIN, .revents = 0});
    }
    poll(polled.data(), polled.size(), 5);
    absl::StatusOr<FileDescriptor> caller = accept_tcp(listener_);
    if (caller.ok() && caller->valid()) {
      absl::StatusOr<FileDescriptor> target = dial_tcp(target_);
      EXPECT_TRUE(target.ok()) << target.status();
      pollfd writable{.fd = target->get(), .events = POLLOUT, .revents = 0};
      poll(&writable, 1, 1000);
      pairs_.push_back({*std::move(caller), *std::move(target)});
    }
    std::erase_if(pairs_, [this](Pair& pair) {
      return !forward(pair.caller, pair.target, nullptr) ||
             !forward(pair.target, pair.caller, &pair);
    });
  }
}

void Relay::reset(Pair& pair) {
  const linger at_once{.l_onoff = 1, .l_linger = 0};  // Makes close() send a reset.
  for (const FileDescriptor* end : {&pair.caller, &pair.target}) {
    setsockopt(end->get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  }
}

// Forwards the bytes that have arrived, if any. False: the connection is over.
bool Relay::forward(const FileDescriptor& from, const FileDescriptor& to, Pair* counted) {
  std::array<char, 64 * 1024> buffer;
  const int64_t room = std::min<int64_t>(faults_.chunk_bytes, buffer.size());
  const int64_t stall = faults_.stall_at;
  if (counted != nullptr && stall >= 0 && bytes_ >= stall) return true;
  const ssize_t got = recv(from.get(), buffer.data(), room, MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN;
  if (got == 0) return false;
  if (counted == nullptr) return send_all(to, buffer.data(), got, stopping_);
  const int64_t begin = bytes_;
  int64_t count = got;
  bytes_ += got;
  if (const int64_t at = faults_.reset_at; at >= 0 && at < bytes_) {
    send_all(to, buffer.data(), std::max<int64_t>(at - begin, 0), stopping_);
    reset(*counted);
    return false;
  }
  if (stall >= 0 && stall < bytes_) count = std::max<int64_t>(stall - begin, 0);
  if (const int64_t at = faults_.flip_at; begin <= at && at < begin + count) {
    buffer[at - begin] = static_cast<char>(buffer[at - begin] ^ 4);
  }
  if (const int64_t at = faults_.drop_at; begin <= at && at < begin + count) {
    std::copy(buffer.begin() + (at - begin) + 1, buffer.begin() + count,
              buffer.begin() + at - begin);
    --count;
  }
  if (const int64_t pause = faults_.pause_us; pause > 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(pause));
  }
  return send_all(to, buffer.data(), count, stopping_);
}

}  // namespace lockstep::testing

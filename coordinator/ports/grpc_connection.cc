// SPDX-License-Identifier: Apache-2.0
#include "coordinator/ports/grpc_connection.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>

#include "base/tls/tls.h"

namespace lockstep {
namespace {

constexpr uint32_t kIn = EPOLLIN;
constexpr uint32_t kOut = EPOLLOUT;
constexpr std::chrono::seconds kHandshake{10};
constexpr std::chrono::seconds kLinger{5};  // For the client to take the last bytes.

// Writes `waiting`, or else `bytes`; the rest is left in `waiting`. False: it failed.
bool write_to(Channel& channel, std::string& waiting, std::string_view bytes = {}) {
  std::string_view left = waiting.empty() ? bytes : waiting;
  while (!left.empty()) {
    const Channel::Progress progress = channel.write(left);
    if (progress.outcome == Channel::Outcome::kFailed) return false;
    if (progress.outcome != Channel::Outcome::kDone) break;
    left.remove_prefix(progress.bytes);
  }
  waiting = std::string(left);  // Idle connections keep no memory.
  return true;
}

// HTTP/2 is negotiated by ALPN. gRPC's own TLS also refuses clients without it.
bool has_protocol(const SSL* tls) {
  const unsigned char* name = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(tls, &name, &size);
  return size > 0;
}

}  // namespace

GrpcConnection::GrpcConnection(Ends ends, const GrpcPace& pace, Clock::time_point now)
    : ends_(std::move(ends)), outside_(ends_.client, ends_.tls), pace_(pace) {
  if (ends_.tls != nullptr) {
    deadline_ = now + kHandshake;
  } else {
    inside_.emplace(ends_.inner, nullptr);
  }
}

GrpcConnection::~GrpcConnection() {
  ::close(ends_.client);
  if (ends_.inner >= 0) ::close(ends_.inner);
}

void GrpcConnection::on_client(uint32_t events, const EventContext& context) {
  if ((events & (EPOLLERR | EPOLLHUP)) != 0) {  // A reset: nothing more can be sent.
    is_over_ = true;
    return;
  }
  if ((events & EPOLLOUT) != 0) carry_out(context);
  if ((events & (wants_write_ ? kOut : kIn)) != 0 && !is_over_) carry_in(context);
}

void GrpcConnection::on_inner(uint32_t events, const EventContext& context) {
  if ((events & (EPOLLERR | EPOLLHUP)) != 0) hang_up(context.now);
  if ((events & EPOLLOUT) != 0) carry_in(context);
  if (!is_over_) carry_out(context);
}

void GrpcConnection::on_time(const EventContext& context) {
  if (context.now >= deadline_) {
    is_over_ = true;
    return;
  }
  if (context.now >= resume_) carry_in(context);
  if (has_hung_up_ && !is_over_) carry_out(context);
}

uint32_t GrpcConnection::client_events() const {
  const bool receives = !client_ended_ && !has_hung_up_ && to_grpc_.empty() && resume_ == kNever;
  const uint32_t in = wants_write_ ? kOut : kIn;
  return (receives ? in : 0) | (to_client_.empty() ? 0 : kOut);
}

std::optional<uint32_t> GrpcConnection::inner_events() const {
  // epoll would report forever that gRPC has hung up.
  if (ends_.inner < 0 || has_hung_up_) return std::nullopt;
  return (to_client_.empty() ? kIn : 0) | (to_grpc_.empty() ? 0 : kOut);
}

GrpcConnection::Clock::time_point GrpcConnection::time() const {
  if (has_hung_up_ && to_client_.empty()) return Clock::time_point::min();
  return std::min(resume_, deadline_);
}

// ---- From the client to gRPC ----

void GrpcConnection::carry_in(const EventContext& context) {
  resume_ = kNever;
  if (has_hung_up_) return;
  if (!to_grpc_.empty()) {
    if (!write_to(*inside_, to_grpc_)) return hang_up(context.now);
    if (!to_grpc_.empty()) return;
    if (client_ended_) inside_->end_writing();
  }
  if (client_ended_) return;
  const Clock::duration pause = pace_.pause(context.now);
  if (pause > Clock::duration::zero()) {
    resume_ = context.now + pause;
  } else {
    receive(context);
  }
}

void GrpcConnection::receive(const EventContext& context) {
  using Outcome = Channel::Outcome;
  size_t filled = 0;
  int reads = 0;
  Channel::Progress progress;
  do {
    progress = outside_.read(context.scratch + filled, kMaxReadBytes - filled);
    filled += progress.bytes;
    ++reads;
  } while (outside_.is_tls() && progress.outcome == Outcome::kDone && filled < kMaxReadBytes);
  wants_write_ = progress.outcome == Outcome::kWantWrite;
  // OpenSSL may have buffered more, which epoll does not know.
  if (outside_.is_tls() && progress.outcome == Outcome::kDone) resume_ = context.now;

  const std::string_view content(context.scratch, filled);
  const int64_t before = received_;
  received_ = outside_.is_tls()
                  ? static_cast<int64_t>(BIO_number_read(SSL_get_rbio(ends_.tls.get())))
                  : received_ + static_cast<int64_t>(filled);
  if (!pace_.count(received_ - before, reads, content, context.now)) {
    problem_ = "its headers are too long";
    is_over_ = true;
  }
  if (!inside_.has_value()) finish_handshake();
  if (progress.outcome == Outcome::kFailed) {
    // A client that hangs up is not a TLS error.
    if (!inside_.has_value() && ERR_peek_error() != 0) problem_ = take_tls_error();
    is_over_ = true;
  }
  if (!inside_.has_value()) {
    is_over_ |= progress.outcome == Outcome::kEnd;
    return;
  }
  if (!write_to(*inside_, to_grpc_, content)) return hang_up(context.now);
  if (progress.outcome != Outcome::kEnd) return;
  client_ended_ = true;
  if (to_grpc_.empty()) inside_->end_writing();
}

void GrpcConnection::finish_handshake() {
  if (SSL_is_init_finished(ends_.tls.get()) == 0) return;
  if (has_protocol(ends_.tls.get())) {
    ends_.inner = ends_.open_inner();
  } else {
    problem_ = "the client offers no protocol by ALPN; offer h2";
  }
  deadline_ = kNever;
  is_over_ |= ends_.inner < 0;
  if (ends_.inner >= 0) inside_.emplace(ends_.inner, nullptr);
}

// ---- From gRPC to the client ----

void GrpcConnection::carry_out(const EventContext& context) {
  if (!inside_.has_value()) return;
  if (!to_client_.empty()) {
    is_over_ = !write_to(outside_, to_client_);
    if (is_over_ || !to_client_.empty()) return;
  }
  const Channel::Progress progress = inside_->read(context.scratch, kMaxReadBytes);
  if (progress.outcome == Channel::Outcome::kDone) {
    is_over_ = !write_to(outside_, to_client_, {context.scratch, progress.bytes});
  } else if (progress.outcome != Channel::Outcome::kWantRead || has_hung_up_) {
    outside_.end_writing();
    is_over_ = true;
  }
}

void GrpcConnection::hang_up(Clock::time_point now) {
  if (has_hung_up_) return;
  has_hung_up_ = true;
  to_grpc_.clear();
  resume_ = kNever;
  deadline_ = now + kLinger;
}

}  // namespace lockstep

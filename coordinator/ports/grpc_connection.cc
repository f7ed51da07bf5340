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
constexpr std::chrono::seconds kHandshake{10};  // For TLS, and for a proof.
constexpr std::chrono::seconds kLinger{5};      // For the client to take the last bytes.

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

GrpcConnection::GrpcConnection(Ends ends, std::unique_ptr<GrpcPace> pace, Clock::time_point now)
    : ends_(std::move(ends)), outside_(ends_.client, ends_.tls), pace_(std::move(pace)) {
  if (ends_.tls != nullptr || ends_.wants_proof) deadline_ = now + kHandshake;
  if (ends_.tls == nullptr) inside_.emplace(ends_.inner, nullptr);
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
  if (!inside_.has_value()) {
    waits_for_turn_ = true;
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
  if (pace_ != nullptr && !has_hung_up_) {
    pace_->check_time(context.now);
    check_pace();
    if (is_over_) return;
  }
  if (context.now >= resume_) {
    if (inside_.has_value()) {
      carry_in(context);
    } else {
      resume_ = kNever;
      waits_for_turn_ = true;
    }
  }
  if (has_hung_up_ && !is_over_) carry_out(context);
}

void GrpcConnection::on_turn(const EventContext& context) {
  waits_for_turn_ = false;
  is_over_ |= outside_.is_abandoned();
  if (!is_over_) carry_in(context);
}

void GrpcConnection::trust(Clock::time_point now) {
  pace_.reset();
  if (has_hung_up_) return;
  deadline_ = kNever;
  if (resume_ != kNever) resume_ = now;
}

uint32_t GrpcConnection::client_events() const {
  const bool receives =
      !client_ended_ && !has_hung_up_ && to_grpc_.empty() && resume_ == kNever && !waits_for_turn_;
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
  const bool is_bounded = pace_ != nullptr && !has_hung_up_;
  return std::min({resume_, deadline_, is_bounded ? pace_->deadline() : kNever});
}

void GrpcConnection::check_pace() {
  if (pace_ == nullptr || pace_->problem().empty()) return;
  problem_ = pace_->problem();
  is_over_ = true;
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
  const Clock::duration pause =
      pace_ != nullptr ? pace_->pause(context.now) : Clock::duration::zero();
  if (pause > Clock::duration::zero()) {
    resume_ = context.now + pause;
  } else {
    receive(context);
  }
}

// Fills the scratch until the turn is over, or there is no more.
Channel::Progress GrpcConnection::read_turn(const EventContext& context, size_t* filled) {
  Channel::Progress progress;
  bool may_have_more = true;
  if (pace_ != nullptr) pace_->begin_turn();
  while (may_have_more && *filled < kMaxReadBytes) {
    size_t max = kMaxReadBytes - *filled;
    if (pace_ != nullptr) max = std::min(max, pace_->max_read_bytes());
    if (max == 0) break;
    char* const begin = context.scratch + *filled;
    progress = outside_.read(begin, max);
    *filled += progress.bytes;
    const int64_t before = received_;
    received_ = outside_.is_tls()
                    ? static_cast<int64_t>(BIO_number_read(SSL_get_rbio(ends_.tls.get())))
                    : received_ + static_cast<int64_t>(progress.bytes);
    if (pace_ != nullptr) pace_->count(received_ - before, {begin, progress.bytes}, context.now);
    may_have_more =
        progress.outcome == Channel::Outcome::kDone && (outside_.is_tls() || progress.bytes == max);
  }
  return progress;
}

void GrpcConnection::receive(const EventContext& context) {
  using Outcome = Channel::Outcome;
  size_t filled = 0;
  const Channel::Progress progress = read_turn(context, &filled);
  wants_write_ = progress.outcome == Outcome::kWantWrite;
  // OpenSSL may have buffered more, which epoll does not know.
  if (outside_.is_tls() && progress.outcome == Outcome::kDone) resume_ = context.now;

  const std::string_view content(context.scratch, filled);
  check_pace();
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
  if (!ends_.wants_proof) deadline_ = kNever;
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
    const std::string_view content(context.scratch, progress.bytes);
    if (pace_ != nullptr) pace_->count_answer(content);
    is_over_ = !write_to(outside_, to_client_, content);
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

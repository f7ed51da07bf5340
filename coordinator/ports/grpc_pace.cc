// SPDX-License-Identifier: Apache-2.0
#include "coordinator/ports/grpc_pace.h"

#include <algorithm>

namespace lockstep {
namespace {

// The largest request is 4 MiB: two of them pass at once, then one per second. One thread of gRPC
// handles tens of times these rates.
constexpr double kBurst = 8 << 20;
constexpr double kPerSecond = 4 << 20;
constexpr double kBurstOfAll = 64 << 20;
constexpr double kPerSecondOfAll = 16 << 20;
// One network gets half of the rate of all.
constexpr double kBurstOfNetwork = kBurstOfAll / 2;
constexpr double kPerSecondOfNetwork = kPerSecondOfAll / 2;
// A connection that sends less than this does not wait for others, while there is a reserve of its
// network and of all.
constexpr double kShareBurst = 64 << 10;
constexpr double kSharePerSecond = 16 << 10;
constexpr double kReserveBurst = 4 << 20;
constexpr double kReservePerSecond = 1 << 20;
constexpr double kReserveBurstOfAll = 32 << 20;
constexpr double kReservePerSecondOfAll = 8 << 20;
// The overhead of a frame, a TLS record or a read, and of a call.
constexpr double kPieceBytes = 256;
constexpr double kCallBytes = 2048;
// A turn ends at this cost, so that thousands of connections that wait have theirs within gRPC's
// timeouts.
constexpr double kTurnBytes = 16 << 10;
constexpr double kMinReadBytes = 512;
constexpr double kFirstCostPerByte = 32;
constexpr double kCostDecay = 0.75;
// A lower bound of a pause, for thousands of connections that wait for the shared rate.
constexpr std::chrono::milliseconds kMinPause{20};

// Header blocks above 16 KiB have CONTINUATION frames; gRPC refuses blocks above 8 KiB, but buffers
// them until they end.
constexpr size_t kMaxContinued = 64 << 10;

// gRPC keeps this for an open call, and all bytes of a message until it ends.
constexpr int64_t kBytesPerCall = 20 << 10;
constexpr std::chrono::seconds kFirstDeadline{30};

constexpr size_t kMinNetworks = 1024;

}  // namespace

void TokenBucket::fill(Clock::time_point now) {
  const std::chrono::duration<double> passed = now - filled_;
  filled_ = now;
  tokens_ = std::min(burst_, tokens_ + per_second_ * passed.count());
}

TokenBucket::Clock::duration TokenBucket::wait(Clock::time_point now) {
  fill(now);
  if (tokens_ > 0) return Clock::duration::zero();
  const std::chrono::duration<double> missing((1 - tokens_) / per_second_);
  return std::chrono::ceil<Clock::duration>(missing);
}

bool TokenBucket::is_full(Clock::time_point now) {
  fill(now);
  return tokens_ >= burst_;
}

GrpcShares::GrpcShares(Clock::time_point now, int64_t calls, int64_t held_bytes)
    : max_calls(calls),
      max_held_bytes(held_bytes),
      all{.rate = TokenBucket(kBurstOfAll, kPerSecondOfAll, now),
          .reserve = TokenBucket(kReserveBurstOfAll, kReservePerSecondOfAll, now)},
      max_networks_(kMinNetworks) {}

std::shared_ptr<GrpcShares::Rates> GrpcShares::network(const std::string& name,
                                                       Clock::time_point now) {
  if (networks_.size() >= max_networks_) {
    std::erase_if(networks_, [now](const auto& one) {
      Rates& network = *one.second;
      return one.second.use_count() == 1 && network.rate.is_full(now) &&
             network.reserve.is_full(now);
    });
    max_networks_ = std::max(kMinNetworks, 2 * networks_.size());
  }
  std::shared_ptr<Rates>& network = networks_[name];
  if (network == nullptr) {
    network = std::make_shared<Rates>(
        Rates{.rate = TokenBucket(kBurstOfNetwork, kPerSecondOfNetwork, now),
              .reserve = TokenBucket(kReserveBurst, kReservePerSecond, now)});
  }
  return network;
}

GrpcPace::GrpcPace(GrpcShares* shares, const std::string& network, Clock::time_point now)
    : shares_(shares),
      network_(shares->network(network, now)),
      own_(kBurst, kPerSecond, now),
      share_(kShareBurst, kSharePerSecond, now),
      held_(&shares->held),
      cost_per_byte_(kFirstCostPerByte) {
  held_.belong_to(network);
}

// ---- The rate ----

GrpcPace::Clock::duration GrpcPace::quiet_wait(Clock::time_point now) {
  return std::max({share_.wait(now), network_->reserve.wait(now), shares_->all.reserve.wait(now)});
}

GrpcPace::Clock::duration GrpcPace::pause(Clock::time_point now) {
  Clock::duration pause = own_.wait(now);
  if (pause == Clock::duration::zero()) {
    pause =
        std::min(quiet_wait(now), std::max(network_->rate.wait(now), shares_->all.rate.wait(now)));
  }
  return pause == Clock::duration::zero() ? pause : std::max<Clock::duration>(pause, kMinPause);
}

void GrpcPace::begin_turn() { turn_ = kTurnBytes; }

size_t GrpcPace::max_read_bytes() const {
  if (turn_ <= 0) return 0;
  return static_cast<size_t>(std::clamp(turn_ / cost_per_byte_, kMinReadBytes, kTurnBytes));
}

void GrpcPace::count(int64_t bytes, std::string_view content, Clock::time_point now) {
  double cost = static_cast<double>(bytes) + kPieceBytes;
  input_.read(content, [&](const Http2Frame& frame) {
    cost += kPieceBytes;
    if (frame.type == Http2Frame::kHeaders) {
      cost += kCallBytes;
      deadline_ = std::min(deadline_, now + kFirstDeadline);
    }
    calls_.on_client(frame, now);
    continued_ = frame.type == Http2Frame::kContinuation ? continued_ + frame.bytes + 9 : 0;
    if (continued_ > kMaxContinued) problem_ = "its headers are too long";
  });
  if (quiet_wait(now) == Clock::duration::zero()) {
    for (TokenBucket* one : {&share_, &network_->reserve, &shares_->all.reserve}) one->take(cost);
  }
  for (TokenBucket* one : {&own_, &network_->rate, &shares_->all.rate}) one->take(cost);
  turn_ -= cost;
  // TLS receives whole records: a read may have got its bytes before.
  const double overhead = cost - static_cast<double>(bytes);
  const double per_byte = 1 + overhead / static_cast<double>(std::max<size_t>(1, content.size()));
  cost_per_byte_ = std::max(per_byte, cost_per_byte_ * kCostDecay);
  hold();
}

// ---- What gRPC keeps ----

void GrpcPace::count_answer(std::string_view content) {
  output_.read(content, [this](const Http2Frame& frame) { calls_.on_server(frame); });
  hold();
}

void GrpcPace::hold() {
  if (calls_.count() > shares_->max_calls) problem_ = "it has too many open calls";
  const int64_t bytes = kBytesPerCall * calls_.count() + calls_.unfinished_bytes();
  if (bytes == held_bytes_) return;
  const bool is_more = bytes > held_bytes_;
  held_bytes_ = bytes;
  const BufferedBytes::Sums sums = held_.hold(bytes);
  const int64_t max = shares_->max_held_bytes;
  if (is_more && sums.of_client > (sums.of_all > max ? max / 8 : max / 2)) {
    problem_ = "its network has too many open calls or unfinished requests";
  }
}

void GrpcPace::check_time(Clock::time_point now) {
  if (now < deadline_) return;
  deadline_ = calls_.deadline().value_or(Clock::time_point::max());
  if (deadline_ <= now) problem_ = "a request did not end within 30 s";
}

}  // namespace lockstep

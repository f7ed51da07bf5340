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
// A connection that sends less than this does not wait for others.
constexpr double kShareBurst = 16 << 10;
constexpr double kSharePerSecond = 4 << 10;
// The overhead of a frame, a TLS record or a read: 16,000 of them pass per second.
constexpr double kPieceBytes = 256;
// A lower bound of a pause, for thousands of connections that wait for the shared rate.
constexpr std::chrono::milliseconds kMinPause{20};

constexpr size_t kPrefaceBytes = 24;
constexpr unsigned char kContinuation = 9;  // A frame type.
// Header blocks above 16 KiB have CONTINUATION frames; gRPC refuses blocks above 8 KiB, but buffers
// them until they end.
constexpr size_t kMaxContinued = 64 << 10;

}  // namespace

TokenBucket::Clock::duration TokenBucket::wait(Clock::time_point now) {
  const std::chrono::duration<double> passed = now - filled_;
  filled_ = now;
  tokens_ = std::min(burst_, tokens_ + per_second_ * passed.count());
  if (tokens_ > 0) return Clock::duration::zero();
  const std::chrono::duration<double> missing((1 - tokens_) / per_second_);
  return std::chrono::ceil<Clock::duration>(missing);
}

Http2Frames::Http2Frames() : to_skip_(kPrefaceBytes) {}

bool Http2Frames::read(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t skipped = std::min(to_skip_, bytes.size());
    to_skip_ -= skipped;
    bytes.remove_prefix(skipped);
    if (bytes.empty()) break;
    header_[header_bytes_++] = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    if (header_bytes_ == header_.size()) begin_frame();
  }
  return continued_ <= kMaxContinued;
}

void Http2Frames::begin_frame() {
  header_bytes_ = 0;
  ++count_;
  to_skip_ = size_t{header_[0]} << 16 | size_t{header_[1]} << 8 | size_t{header_[2]};
  continued_ = header_[3] == kContinuation ? continued_ + header_.size() + to_skip_ : 0;
}

TokenBucket GrpcPace::for_all(Clock::time_point now) {
  return TokenBucket(kBurstOfAll, kPerSecondOfAll, now);
}

GrpcPace::GrpcPace(TokenBucket* all, Clock::time_point now)
    : all_(all), own_(kBurst, kPerSecond, now), share_(kShareBurst, kSharePerSecond, now) {}

bool GrpcPace::count(int64_t bytes, int reads, std::string_view content, Clock::time_point now) {
  const int64_t before = frames_.count();
  const bool is_legal = frames_.read(content);
  const auto pieces = static_cast<double>(frames_.count() - before + reads);
  const double cost = static_cast<double>(bytes) + kPieceBytes * pieces;
  own_.take(cost);
  (share_.wait(now) == Clock::duration::zero() ? share_ : *all_).take(cost);
  return is_legal;
}

GrpcPace::Clock::duration GrpcPace::pause(Clock::time_point now) {
  Clock::duration pause = own_.wait(now);
  if (pause == Clock::duration::zero()) pause = std::min(share_.wait(now), all_->wait(now));
  return pause == Clock::duration::zero() ? pause : std::max<Clock::duration>(pause, kMinPause);
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "coordinator/ports/grpc_calls.h"

#include <utility>

namespace lockstep {
namespace {

constexpr std::chrono::seconds kMaxRequestTime{30};
// Requests that wait for their connection's rate (GrpcPace) are not late.
constexpr int64_t kMinBytesPerSecond = 16 << 10;

}  // namespace

void GrpcCalls::on_client(const Http2Frame& frame, TimePoint now) {
  // Clients' streams are odd and ascend; gRPC ignores or refuses others.
  if (frame.type == Http2Frame::kHeaders && frame.stream % 2 == 1 && frame.stream > last_stream_) {
    last_stream_ = frame.stream;
    calls_.emplace_hint(calls_.end(), frame.stream,
                        Call{.begun = now, .begun_bytes = received_bytes_});
  }
  const auto found = calls_.find(frame.stream);
  if (found == calls_.end()) return;
  Call& call = found->second;
  if (frame.type == Http2Frame::kResetStream) return remove(found);
  if (frame.type == Http2Frame::kData && !call.has_ended) {
    received_bytes_ += frame.bytes;
    call.unfinished_bytes += frame.bytes;
    unfinished_bytes_ += frame.bytes;
  }
  if (!frame.ends_stream()) return;
  call.has_ended = true;
  forget_bytes(call);
}

void GrpcCalls::on_server(const Http2Frame& frame) {
  const auto found = calls_.find(frame.stream);
  if (found == calls_.end()) return;
  if (frame.type == Http2Frame::kHeaders) found->second.is_answered = true;
  if (frame.type == Http2Frame::kResetStream || frame.ends_stream()) remove(found);
}

std::optional<GrpcCalls::TimePoint> GrpcCalls::deadline() const {
  std::optional<TimePoint> first;
  for (const auto& [stream, call] : calls_) {
    if (call.has_ended || call.is_answered) continue;
    const std::chrono::seconds sending((received_bytes_ - call.begun_bytes) / kMinBytesPerSecond);
    const TimePoint late = call.begun + kMaxRequestTime + sending;
    if (!first.has_value() || late < *first) first = late;
  }
  return first;
}

void GrpcCalls::remove(Calls::iterator call) {
  forget_bytes(call->second);
  calls_.erase(call);
}

void GrpcCalls::forget_bytes(Call& call) {
  unfinished_bytes_ -= std::exchange(call.unfinished_bytes, 0);
}

}  // namespace lockstep

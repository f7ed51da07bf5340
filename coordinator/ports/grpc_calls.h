// SPDX-License-Identifier: Apache-2.0
// The open calls of a client's connection to gRPC. gRPC applies its limit of streams only after the
// client has acknowledged it, and no limit of time or memory to requests that do not end.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>

#include "coordinator/ports/http2_frames.h"

namespace lockstep {

// Follows the frames of both directions. No I/O, no clock. One thread.
class GrpcCalls {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  void on_client(const Http2Frame& frame, TimePoint now);
  void on_server(const Http2Frame& frame);

  int64_t count() const { return static_cast<int64_t>(calls_.size()); }
  // The bytes received of requests that have not ended.
  int64_t unfinished_bytes() const { return unfinished_bytes_; }
  // The time at which the first of the requests that have neither ended nor got an answer is late:
  // 30 s after it began, and 1 s later for each 16 KiB that the connection has sent since. Linear
  // in count().
  std::optional<TimePoint> deadline() const;

 private:
  struct Call {
    TimePoint begun;
    int64_t begun_bytes = 0;  // The connection's received_bytes_ then.
    int64_t unfinished_bytes = 0;
    bool has_ended = false;    // The request is complete.
    bool is_answered = false;  // gRPC has begun to answer.
  };
  using Calls = std::map<uint32_t, Call>;

  void remove(Calls::iterator call);
  void forget_bytes(Call& call);

  Calls calls_;  // By stream, in the order of their beginnings.
  uint32_t last_stream_ = 0;
  int64_t received_bytes_ = 0;
  int64_t unfinished_bytes_ = 0;
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// How fast gRPC is given what clients send. gRPC's threads also serve the workers' port: a client
// that keeps them busy makes heartbeats late, and healthy workers are killed. No I/O, no clock.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep {

// A token bucket, which may be overdrawn: then it is empty for that much longer. One thread.
class TokenBucket {
 public:
  using Clock = std::chrono::steady_clock;
  TokenBucket(double burst, double per_second, Clock::time_point now)
      : burst_(burst), per_second_(per_second), tokens_(burst), filled_(now) {}

  void take(double tokens) { tokens_ -= tokens; }
  // The time until it is not empty. Zero: it is not.
  Clock::duration wait(Clock::time_point now);

 private:
  const double burst_;
  const double per_second_;
  double tokens_;
  Clock::time_point filled_;
};

// The frames of HTTP/2 in what a client sends, which begins with the preface. The payload is not
// looked at.
class Http2Frames {
 public:
  Http2Frames();
  // False: a block of headers is longer than any that gRPC accepts.
  bool read(std::string_view bytes);
  int64_t count() const { return count_; }

 private:
  void begin_frame();

  std::array<unsigned char, 9> header_ = {};
  size_t header_bytes_ = 0;
  size_t to_skip_;        // The rest of the preface, or of a payload.
  size_t continued_ = 0;  // In CONTINUATION frames that follow each other.
  int64_t count_ = 0;
};

// One connection's. One thread.
class GrpcPace {
 public:
  using Clock = TokenBucket::Clock;
  // The bucket that all connections share.
  static TokenBucket for_all(Clock::time_point now);
  GrpcPace(TokenBucket* all, Clock::time_point now);

  // Counts what was received by `reads` calls: `bytes` of the socket, `content` for gRPC. False:
  // the connection is to be closed.
  bool count(int64_t bytes, int reads, std::string_view content, Clock::time_point now);
  // The time in which nothing is to be received. Zero: something may.
  Clock::duration pause(Clock::time_point now);

 private:
  TokenBucket* const all_;
  TokenBucket own_;
  TokenBucket share_;
  Http2Frames frames_;
};

}  // namespace lockstep

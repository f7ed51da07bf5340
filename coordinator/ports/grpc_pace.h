// SPDX-License-Identifier: Apache-2.0
// Limits the rate of clients' input to gRPC. gRPC's threads also serve the workers' port: a client
// that keeps them busy delays heartbeats, and healthy workers are killed. No I/O, no clock.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep {

// A token bucket that may be overdrawn: then it stays empty for longer. One thread.
class TokenBucket {
 public:
  using Clock = std::chrono::steady_clock;
  TokenBucket(double burst, double per_second, Clock::time_point now)
      : burst_(burst), per_second_(per_second), tokens_(burst), filled_(now) {}

  void take(double tokens) { tokens_ -= tokens; }
  // The time until it is not empty; zero: it is not empty.
  Clock::duration wait(Clock::time_point now);

 private:
  const double burst_;
  const double per_second_;
  double tokens_;
  Clock::time_point filled_;
};

// Counts the HTTP/2 frames in a client's bytes, which begin with the preface. Payloads are skipped.
class Http2Frames {
 public:
  Http2Frames();
  // False: a header block is longer than any that gRPC accepts.
  bool read(std::string_view bytes);
  int64_t count() const { return count_; }

 private:
  void begin_frame();

  std::array<unsigned char, 9> header_ = {};
  size_t header_bytes_ = 0;
  size_t to_skip_;        // The rest of the preface, or of a payload.
  size_t continued_ = 0;  // Bytes of consecutive CONTINUATION frames.
  int64_t count_ = 0;
};

// One per connection. One thread.
class GrpcPace {
 public:
  using Clock = TokenBucket::Clock;
  // The bucket shared by all connections.
  static TokenBucket for_all(Clock::time_point now);
  GrpcPace(TokenBucket* all, Clock::time_point now);

  // Counts the input of `reads` calls: `bytes` of the socket, `content` for gRPC. False: close the
  // connection.
  bool count(int64_t bytes, int reads, std::string_view content, Clock::time_point now);
  // How long to receive nothing. Zero: receiving is allowed.
  Clock::duration pause(Clock::time_point now);

 private:
  TokenBucket* const all_;
  TokenBucket own_;
  TokenBucket share_;
  Http2Frames frames_;
};

}  // namespace lockstep

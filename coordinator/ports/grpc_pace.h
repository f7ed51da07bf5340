// SPDX-License-Identifier: Apache-2.0
// Bounds clients' input to gRPC. gRPC's threads also serve the workers' port: a client that keeps
// them busy delays heartbeats, and healthy workers are killed. No I/O, no clock.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "coordinator/ports/buffered_bytes.h"
#include "coordinator/ports/grpc_calls.h"
#include "coordinator/ports/http2_frames.h"

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
  bool is_full(Clock::time_point now);

 private:
  void fill(Clock::time_point now);

  const double burst_;
  const double per_second_;
  double tokens_;
  Clock::time_point filled_;
};

// The bounds that the connections of a port share: of all, and of each network (network_of()).
// Outlives them. One thread.
class GrpcShares {
 public:
  using Clock = TokenBucket::Clock;
  struct Rates {
    TokenBucket rate;
    TokenBucket reserve;  // For connections that send little.
  };

  // gRPC's limit of streams per connection, which it announces.
  static constexpr int64_t kMaxCalls = 256;
  // The bytes that gRPC may keep for open calls: one network has half of them; if all have more, an
  // eighth.
  static constexpr int64_t kMaxHeldBytes = 512 << 20;
  // `calls`: the max number of open calls of a connection.
  explicit GrpcShares(Clock::time_point now, int64_t calls = kMaxCalls,
                      int64_t held_bytes = kMaxHeldBytes);
  // A network keeps its rate when its last connection is closed.
  std::shared_ptr<Rates> network(const std::string& name, Clock::time_point now);

  const int64_t max_calls;
  const int64_t max_held_bytes;
  Rates all;
  BufferedBytes held;  // Kept by gRPC for open calls.

 private:
  std::unordered_map<std::string, std::shared_ptr<Rates>> networks_;
  size_t max_networks_ = 0;  // At this number, networks that are full and unused are removed.
};

// One per connection. One thread.
class GrpcPace {
 public:
  using Clock = TokenBucket::Clock;
  GrpcPace(GrpcShares* shares, const std::string& network, Clock::time_point now);

  // How long to receive nothing. Zero: a turn may begin.
  Clock::duration pause(Clock::time_point now);
  void begin_turn();
  // The max size of the turn's next read; 0: the turn is over.
  size_t max_read_bytes() const;
  // Counts a read: `bytes` of the socket, `content` for gRPC.
  void count(int64_t bytes, std::string_view content, Clock::time_point now);
  // Counts the bytes that gRPC sends.
  void count_answer(std::string_view content);
  // When to call check_time(): a request may have taken too long to arrive.
  Clock::time_point deadline() const { return deadline_; }
  void check_time(Clock::time_point now);
  // Why to close the connection; empty: it stays open.
  std::string_view problem() const { return problem_; }

 private:
  void hold();
  Clock::duration quiet_wait(Clock::time_point now);

  GrpcShares* const shares_;
  const std::shared_ptr<GrpcShares::Rates> network_;
  TokenBucket own_;
  TokenBucket share_;
  Http2Frames input_{Http2Frames::kPrefaceBytes};
  Http2Frames output_{0};
  GrpcCalls calls_;
  BufferedBytes::Share held_;
  int64_t held_bytes_ = 0;
  size_t continued_ = 0;  // Bytes of consecutive CONTINUATION frames.
  double turn_ = 0;       // The cost that the turn may still have.
  double cost_per_byte_;  // A high estimate, from the last reads.
  Clock::time_point deadline_ = Clock::time_point::max();
  std::string_view problem_;
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// Limits how long a connection may write while others of its thread wait. A piece of an answer can
// take long to make: it has up to 64 KiB, and a token of it may have hundreds of log-probabilities.
#pragma once

#include <cstdint>
#include <utility>

#include "base/system/clock.h"

namespace lockstep::http {

class WriteTurn {
 public:
  // `max_pieces`: bounds the bytes of a turn.
  explicit WriteTurn(int max_pieces) : begin_ns_(thread_time_ns()), pieces_left_(max_pieces) {}

  // Whether one more piece may be written. The first one always may.
  bool goes_on() {
    const bool is_first = std::exchange(is_first_, false);
    return pieces_left_-- > 0 && (is_first || time_ns() < kMaxNs);
  }
  // Whether the turn took so long that the connection's next one must wait for that of others.
  bool is_long() const { return time_ns() >= kLongNs; }

 private:
  static constexpr int64_t kMaxNs = 500'000, kLongNs = 100'000;

  int64_t time_ns() const { return thread_time_ns() - begin_ns_; }

  const int64_t begin_ns_;
  int pieces_left_;
  bool is_first_ = true;
};

}  // namespace lockstep::http

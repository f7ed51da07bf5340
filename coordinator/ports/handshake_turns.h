// SPDX-License-Identifier: Apache-2.0
// TLS handshakes of connections that a thread carries beside others: a client needs no key to ask
// for one, and it takes as long as thousands of messages.
#pragma once

#include <chrono>
#include <deque>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/system/clock.h"

namespace lockstep {

// Connections that wait for their turn, in which they go on with their handshake. Networks
// (network_of()) take turns, and all together get half of the thread's time: between two turns
// that take long the thread does its other work. One thread.
template <typename Connection>
class HandshakeTurns {
 public:
  using Clock = std::chrono::steady_clock;

  void add(const std::string& network, Connection connection) {
    std::deque<Connection>& waiting = waiting_[network];
    if (waiting.empty()) order_.push_back(network);
    waiting.push_back(std::move(connection));
  }

  // When run() is to be called; Clock::time_point::max(): nothing waits.
  Clock::time_point time() const { return order_.empty() ? Clock::time_point::max() : next_; }

  // Calls `act(connection)` up to the first that takes long.
  template <typename Act>
  void run(const Act& act) {
    for (int i = 0; i < kMaxTurns && !order_.empty() && Clock::now() >= next_; ++i) {
      const int64_t before = thread_time_ns();
      act(take());
      const std::chrono::nanoseconds cost(thread_time_ns() - before);
      if (cost >= kLong) next_ = Clock::now() + cost;
    }
  }

 private:
  static constexpr int kMaxTurns = 64;
  static constexpr std::chrono::microseconds kLong{100};  // A signature takes several of it.

  Connection take() {
    std::string network = std::move(order_.front());
    order_.pop_front();
    const auto own = waiting_.find(network);
    Connection first = std::move(own->second.front());
    own->second.pop_front();
    if (own->second.empty()) {
      waiting_.erase(own);
    } else {
      order_.push_back(std::move(network));
    }
    return first;
  }

  std::unordered_map<std::string, std::deque<Connection>> waiting_;  // By network; none is empty.
  std::deque<std::string> order_;                                    // Of their networks.
  Clock::time_point next_;
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// Limits the time that a thread spends on input which strangers may send without limit: TLS
// handshakes, one of which takes as long as thousands of messages, and frames of HTTP/2.
#pragma once

#include <chrono>
#include <deque>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/system/clock.h"

namespace lockstep {

// A queue of connections that wait for a turn. Networks (network_of()) alternate. Turns get at most
// half of the thread's time: after a long turn, the thread does other work for the same time. Only
// one thread may use it.
template <typename Connection>
class FairTurns {
 public:
  using Clock = std::chrono::steady_clock;

  void add(const std::string& network, Connection connection) {
    std::deque<Connection>& waiting = waiting_[network];
    if (waiting.empty()) order_.push_back(network);
    waiting.push_back(std::move(connection));
  }

  // When to call run(); Clock::time_point::max(): no connection waits.
  Clock::time_point time() const { return order_.empty() ? Clock::time_point::max() : next_; }

  // Calls `act(connection)` for waiting connections, until a call takes long.
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
  static constexpr std::chrono::microseconds kLong{100};  // A TLS signature takes longer.

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

  // The queues by network, none empty, and the order in which networks have their turns.
  std::unordered_map<std::string, std::deque<Connection>> waiting_;
  std::deque<std::string> order_;
  Clock::time_point next_;
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// Limits the time that a thread spends on input which strangers may send without limit: frames of
// HTTP/2, and TLS handshakes (one handshake takes as long as thousands of messages).
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "base/system/clock.h"
#include "base/text_map.h"

namespace lockstep {

// A queue of connections that wait for a turn. Networks (network_of()) alternate. In a network,
// connections that had no turn yet alternate with the other connections. Among those without a
// turn, the newest is first. So if more connections come than can be served, the newer ones get all
// their turns in time; in the order of arrival, all would get them too late. Turns get at most half
// of the thread's time: after a long turn, the thread does other work for the same time. Only one
// thread may use a queue.
template <typename Object>
class FairTurns {
 public:
  using Clock = std::chrono::steady_clock;
  using Connection = std::weak_ptr<Object>;

  void add(const std::string& network, Connection connection, bool is_first) {
    Waiting& waiting = waiting_[network];
    if (waiting.is_empty()) order_.push_back(network);
    (is_first ? waiting.first : waiting.others).push_back(std::move(connection));
    if (waiting.first.size() < waiting.next_sweep) return;
    std::erase_if(waiting.first, [](const Connection& one) { return one.expired(); });
    waiting.next_sweep = std::max(kMinSweep, 2 * waiting.first.size());
  }

  // When to call run(); Clock::time_point::max(): no connection waits.
  Clock::time_point time() const { return order_.empty() ? Clock::time_point::max() : next_; }

  // Calls `act(object)` for waiting connections that still exist, until a call takes long.
  template <typename Act>
  void run(const Act& act) {
    for (int i = 0; i < kMaxTurns && !order_.empty() && Clock::now() >= next_; ++i) {
      const std::shared_ptr<Object> one = take().lock();
      if (one == nullptr) continue;
      const int64_t before = thread_time_ns();
      act(*one);
      const std::chrono::nanoseconds cost(thread_time_ns() - before);
      if (cost >= kLong) next_ = Clock::now() + cost;
    }
  }

 private:
  static constexpr int kMaxTurns = 64;
  static constexpr size_t kMinSweep = 256;
  static constexpr std::chrono::microseconds kLong{100};  // A TLS signature takes longer.

  struct Waiting {
    bool is_empty() const { return first.empty() && others.empty(); }

    std::deque<Connection> first;   // Those that have had no turn. The last one is the newest.
    std::deque<Connection> others;  // In the order of their turns.
    bool others_are_next = false;
    size_t next_sweep = kMinSweep;  // At this size of `first`, closed connections are removed.
  };

  Connection take() {
    std::string network = std::move(order_.front());
    order_.pop_front();
    const auto own = waiting_.find(network);
    Waiting& waiting = own->second;
    const bool takes_other =
        !waiting.others.empty() && (waiting.others_are_next || waiting.first.empty());
    waiting.others_are_next = !takes_other;
    Connection next;
    if (takes_other) {
      next = std::move(waiting.others.front());
      waiting.others.pop_front();
    } else {
      next = std::move(waiting.first.back());
      waiting.first.pop_back();
    }
    if (waiting.is_empty()) {
      waiting_.erase(own);
    } else {
      order_.push_back(std::move(network));
    }
    return next;
  }

  TextNodeMap<std::string, Waiting> waiting_;  // By network; none is empty.
  std::deque<std::string> order_;              // The order in which networks have turns.
  Clock::time_point next_;
};

}  // namespace lockstep

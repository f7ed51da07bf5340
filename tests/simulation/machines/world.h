// SPDX-License-Identifier: Apache-2.0
// Virtual time, one source of randomness, the log, and the first broken promise.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tests/simulation/machines/plants.h"

namespace lockstep::simulation {

// Shared by all parts of one simulation. One thread; the same seed gives the same history.
class World {
 public:
  World(uint64_t seed, bool trace, Plant plant = Plant::kNone)
      : random_(seed), trace_(trace), plant_(plant) {}

  int64_t now() const { return now_; }  // Milliseconds.
  void after(int64_t delay, std::function<void()> what) {
    events_.push_back({.time = now_ + delay, .number = ++scheduled_, .what = std::move(what)});
    std::push_heap(events_.begin(), events_.end());
  }
  // Runs the next event; returns false if none is left.
  bool run_next();

  // Draws from [low, high].
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  bool one_in(int64_t count) { return between(1, count) == 1; }
  bool logs() const { return trace_; }
  bool planted(Plant plant) const { return plant == plant_; }

  template <typename... Args>
  void log(fmt::format_string<Args...> format, Args&&... args) {
    if (trace_) print(fmt::format(format, std::forward<Args>(args)...));
  }
  // Reports a broken promise. Only the first one counts.
  template <typename... Args>
  void broken(fmt::format_string<Args...> format, Args&&... args) {
    if (failure_.empty()) failure_ = fmt::format(format, std::forward<Args>(args)...);
    log("BROKEN: {}", failure_);
  }
  const std::string& failure() const { return failure_; }

 private:
  struct Event {
    int64_t time = 0;
    uint64_t number = 0;
    std::function<void()> what;
    bool operator<(const Event& other) const {  // The largest in the heap is the earliest event.
      return time != other.time ? time > other.time : number > other.number;
    }
  };
  void print(const std::string& line) const;
  void count_event();

  std::mt19937_64 random_;
  const bool trace_;
  const Plant plant_;
  int64_t now_ = 0;
  uint64_t scheduled_ = 0;
  std::vector<Event> events_;  // A heap.
  int64_t second_ = 0;
  int64_t events_in_second_ = 0;
  std::string failure_;
};

}  // namespace lockstep::simulation

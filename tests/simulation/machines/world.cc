// SPDX-License-Identifier: Apache-2.0
// The event loop of virtual time; whoever does too much in one second of it is going round in a
// circle.
#include "tests/simulation/machines/world.h"

#include <utility>

namespace lockstep::simulation {
namespace {

constexpr int64_t kMaxEventsPerSecond = 20'000;

}  // namespace

bool World::run_next() {
  if (events_.empty()) return false;
  std::pop_heap(events_.begin(), events_.end());
  const Event event = std::move(events_.back());
  events_.pop_back();
  now_ = event.time;
  count_event();
  event.what();
  return true;
}

void World::count_event() {
  if (std::exchange(second_, now_ / 1000) != now_ / 1000) events_in_second_ = 0;
  if (++events_in_second_ == kMaxEventsPerSecond) {
    broken("livelock: {} events within second {}", kMaxEventsPerSecond, second_);
  }
}

void World::print(const std::string& line) const {
  fmt::print("{:>8}.{:03} {}\n", now_ / 1000, now_ % 1000, line);
}

}  // namespace lockstep::simulation

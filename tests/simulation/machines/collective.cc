// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/machines/collective.h"

#include <utility>

#include "base/status.h"

namespace lockstep::simulation {
namespace {

constexpr int64_t kMeetingMs = 30'000;
constexpr int64_t kNoticeMs = 50;  // The maximum time until a peer's end is noticed.

}  // namespace

void Collective::meet(int rank, Done done) { wait(rank, {}, std::move(done)); }

void Collective::enter(int rank, const Place& place, Done done) {
  if (failure_.ok()) return wait(rank, place, std::move(done));
  world_.after(0, [done = std::move(done), why = failure_] { done(why); });
}

void Collective::wait(int rank, const Place& place, Done done) {
  waiters_[rank] = {.place = place, .since = world_.now(), .done = std::move(done)};
  if (static_cast<int>(waiters_.size()) < ranks_) return;
  met_ = true;
  for (auto& [each, waiter] : std::exchange(waiters_, {})) {
    if (waiter.place != place) {
      world_.broken("ranks {} and {} meet in steps {} and {} with checkpoints {} and {}", each,
                    rank, waiter.place.step, place.step, waiter.place.checkpoint, place.checkpoint);
    }
    world_.after(world_.between(0, 1), [done = std::move(waiter.done)] { done(absl::OkStatus()); });
  }
}

void Collective::withdraw(int rank) { waiters_.erase(rank); }

void Collective::lose(int rank) {
  waiters_.erase(rank);
  if (met_) fail(unavailable("the process of rank {} ended", rank), kNoticeMs);
}

void Collective::abort() {
  if (met_) fail(absl::AbortedError("the group was aborted"), 2);
}

void Collective::check_time() {
  if (waiters_.empty()) return;
  const int64_t limit = met_ ? timeout_ms_ : kMeetingMs;
  for (const auto& [rank, waiter] : waiters_) {
    if (world_.now() - waiter.since < limit) continue;
    return fail(absl::DeadlineExceededError("a rank did not arrive"), 0);
  }
}

void Collective::fail(absl::Status why, int64_t within_ms) {
  if (failure_.ok()) failure_ = std::move(why);
  for (auto& [rank, waiter] : std::exchange(waiters_, {})) {
    world_.after(world_.between(0, within_ms),
                 [done = std::move(waiter.done), why = failure_] { done(why); });
  }
}

}  // namespace lockstep::simulation

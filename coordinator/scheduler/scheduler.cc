// SPDX-License-Identifier: Apache-2.0
// One pass over the running sequences, oldest first, then one over the queue.
#include "coordinator/scheduler/scheduler.h"

#include <algorithm>

#include "base/check.h"

namespace lockstep {
namespace {

// A running sequence may need a row and an output in every step, so that no more run than there
// are of either.
SchedulerLimits effective(SchedulerLimits limits) {
  LOCKSTEP_CHECK(limits.rows > 0 && limits.outputs > 0 && limits.running > 0);
  limits.running = std::min({limits.running, limits.rows, limits.outputs});
  limits.prefill_chunk = std::max<int64_t>(limits.prefill_chunk, 1);
  return limits;
}

}  // namespace

Scheduler::Scheduler(const SchedulerLimits& limits)
    : limits_(effective(limits)), pages_(limits.pages, limits.page_tokens) {
  for (int64_t slot = limits_.running; slot > 0; --slot) {
    free_slots_.push_back(static_cast<int32_t>(slot - 1));
  }
}

void Scheduler::add(Sequence* sequence) {
  LOCKSTEP_CHECK(sequence->state() == Sequence::State::kWaiting);
  LOCKSTEP_CHECK(pages_.pages_for(sequence->length()) <= pages_.total());
  waiting_.push_back(sequence);
}

void Scheduler::remove(Sequence* sequence) {
  if (sequence->state() == Sequence::State::kRunning) {
    LOCKSTEP_CHECK(std::erase(running_, sequence) == 1);
    free_slot(*sequence);
  } else {
    LOCKSTEP_CHECK(std::erase(waiting_, sequence) == 1);
  }
  pages_.give_back(sequence->release());
}

Batch Scheduler::schedule() {
  Batch batch;
  int64_t prefill_rows = 0;
  const std::vector<int64_t> shares = share_rows(&prefill_rows);
  for (size_t index = 0; index < running_.size(); ++index) {
    const int64_t rows = reserve(index, shares[index]);
    if (rows == 0) continue;
    batch.items.push_back({.sequence = running_[index], .rows = rows});
    batch.rows += rows;
  }
  admit(prefill_rows, &batch);
  LOCKSTEP_CHECK(batch.rows <= limits_.rows);
  LOCKSTEP_CHECK(batch.rows > 0 || (running_.empty() && waiting_.empty()));
  return batch;
}

std::vector<int64_t> Scheduler::share_rows(int64_t* prefill_rows) const {
  std::vector<int64_t> shares(running_.size());
  int64_t left = limits_.rows;
  for (size_t index = 0; index < running_.size(); ++index) {
    if (running_[index]->remaining() != 1) continue;
    shares[index] = 1;
    --left;
  }
  left = std::min(left, limits_.prefill_chunk);
  for (size_t index = 0; index < running_.size(); ++index) {
    if (shares[index] == 1) continue;
    shares[index] = std::min(left, running_[index]->remaining());
    left -= shares[index];
  }
  *prefill_rows = left;
  return shares;
}

int64_t Scheduler::reserve(size_t index, int64_t rows) {
  if (rows == 0) return 0;
  Sequence& sequence = *running_[index];
  std::vector<int32_t>& held = sequence.pages();
  const auto missing = [&] {
    return pages_.pages_for(sequence.computed() + rows) - static_cast<int64_t>(held.size());
  };
  while (missing() > pages_.free() && running_.size() > index + 1) preempt_youngest();
  if (missing() > pages_.free()) {
    // It is the youngest itself: it takes what there is, and keeps what it has until an older one
    // needs it.
    LOCKSTEP_CHECK(index > 0);
    const int64_t room = static_cast<int64_t>(held.size()) + pages_.free();
    rows = room * pages_.page_tokens() - sequence.computed();
  }
  pages_.take(std::max<int64_t>(missing(), 0), &held);
  return rows;
}

void Scheduler::preempt_youngest() {
  Sequence* youngest = running_.back();
  running_.pop_back();
  free_slot(*youngest);
  pages_.give_back(youngest->preempt());
  waiting_.push_front(youngest);
  ++preemptions_;
}

void Scheduler::admit(int64_t prefill_rows, Batch* batch) {
  // What running prompts have yet to take is not free: else new ones would drive them out again.
  int64_t promised = 0;
  for (const Sequence* sequence : running_) {
    const int64_t held = static_cast<int64_t>(sequence->pages().size());
    promised += std::max<int64_t>(pages_.pages_for(sequence->length()) - held, 0);
  }
  while (!waiting_.empty() && prefill_rows > 0 && running() < limits_.running) {
    Sequence* next = waiting_.front();
    const int64_t needed = pages_.pages_for(next->length());
    if (needed > pages_.free() - promised) return;
    waiting_.pop_front();
    running_.push_back(next);
    next->start(free_slots_.back());
    free_slots_.pop_back();
    const int64_t rows = reserve(running_.size() - 1, std::min(prefill_rows, next->remaining()));
    promised += needed - static_cast<int64_t>(next->pages().size());
    prefill_rows -= rows;
    batch->items.push_back({.sequence = next, .rows = rows});
    batch->rows += rows;
  }
}

}  // namespace lockstep

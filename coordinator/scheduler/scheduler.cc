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
    : limits_(effective(limits)), pages_(limits.pages, limits.page_tokens, limits.prefix) {
  for (int64_t slot = limits_.running; slot > 0; --slot) {
    free_slots_.push_back(static_cast<int32_t>(slot - 1));
  }
}

void Scheduler::add(std::span<Sequence* const> choices) {
  for (Sequence* choice : choices) {
    LOCKSTEP_CHECK(choice->state() == Sequence::State::kWaiting);
    LOCKSTEP_CHECK(pages_.pages_for(choice->length()) <= pages_.total());
    choice->set_number(++added_);
  }
  const size_t queued = pages_.can_share(*choices[0]) ? 1 : choices.size();
  for (Sequence* choice : choices.first(queued)) waiting_.insert(choice);
  if (queued == choices.size()) return;
  followers_[choices[0]].assign(choices.begin() + 1, choices.end());
  followers_count_ += static_cast<int64_t>(choices.size()) - 1;
}

void Scheduler::release_followers(const Sequence* first) {
  const auto found = followers_.find(first);
  if (found == followers_.end()) return;
  followers_count_ -= static_cast<int64_t>(found->second.size());
  waiting_.insert(found->second.begin(), found->second.end());
  followers_.erase(found);
}

void Scheduler::remove(Sequence* sequence) {
  release_followers(sequence);
  if (sequence->state() == Sequence::State::kRunning) {
    LOCKSTEP_CHECK(std::erase(running_, sequence) == 1);
    free_slots_.push_back(sequence->slot());
    pages_.leave(*sequence);
  } else {
    LOCKSTEP_CHECK(waiting_.erase(sequence) == 1);
  }
  sequence->release();
}

void Scheduler::computed(const Batch& batch, int64_t time_ns) {
  if (time_ns > 0 && batch.rows > 0) cost_.learn(batch.work, time_ns);
  for (const BatchItem& item : batch.items) {
    Sequence& sequence = *item.sequence;
    if (sequence.state() != Sequence::State::kRunning) continue;  // It ended meanwhile.
    sequence.advance(item.rows);
    pages_.publish(sequence);
    if (sequence.computed() >= sequence.prompt_tokens()) release_followers(&sequence);
  }
}

Batch Scheduler::schedule() {
  Batch batch;
  Room room;
  const std::vector<int64_t> shares = share_rows(&room);
  for (size_t index = 0; index < running_.size(); ++index) {
    const int64_t rows = reserve(index, shares[index]);
    if (rows > 0) batch.items.push_back({.sequence = running_[index], .rows = rows});
  }
  admit(&room, &batch);
  for (const BatchItem& item : batch.items) {
    batch.work = batch.work.with(item.sequence->computed(), item.rows);
  }
  batch.rows = batch.work.rows;
  LOCKSTEP_CHECK(batch.rows <= limits_.rows);
  LOCKSTEP_CHECK(batch.rows > 0 || (running_.empty() && waiting_.empty()));
  return batch;
}

std::vector<int64_t> Scheduler::share_rows(Room* room) const {
  std::vector<int64_t> shares(running_.size());
  for (size_t index = 0; index < running_.size(); ++index) {
    if (running_[index]->remaining() != 1) continue;
    shares[index] = 1;
    room->work = room->work.with(running_[index]->computed(), 1);
  }
  room->rows = std::min(limits_.rows - room->work.rows, limits_.prefill_chunk);
  room->limited = room->work.rows > 0 && limits_.step_budget_ns > 0;
  for (size_t index = 0; index < running_.size(); ++index) {
    if (shares[index] == 1) continue;
    shares[index] = give(running_[index]->computed(), running_[index]->remaining(), room);
  }
  return shares;
}

int64_t Scheduler::give(int64_t position, int64_t wanted, Room* room) const {
  int64_t rows = std::min(wanted, room->rows);
  if (room->limited) {
    const int64_t fit = cost_.rows_within(limits_.step_budget_ns, room->work, position, rows);
    rows = std::min(rows, std::max(fit, kMinPromptRows - room->given));
  }
  room->rows = rows < wanted ? 0 : room->rows - rows;
  room->given += rows;
  room->work = room->work.with(position, rows);
  return rows;
}

int64_t Scheduler::reserve(size_t index, int64_t rows) {
  if (rows == 0) return 0;
  Sequence& sequence = *running_[index];
  const int64_t held = static_cast<int64_t>(sequence.pages().size());
  const auto missing = [&] { return pages_.pages_for(sequence.computed() + rows) - held; };
  while (missing() > pages_.available() && running_.size() > index + 1) preempt_youngest();
  if (missing() > pages_.available()) {
    // It is the youngest itself: it takes what there is, and keeps what it has until an older one
    // needs it.
    LOCKSTEP_CHECK(index > 0);
    rows = (held + pages_.available()) * pages_.page_tokens() - sequence.computed();
  }
  pages_.take(std::max<int64_t>(missing(), 0), sequence);
  return rows;
}

void Scheduler::preempt_youngest() {
  Sequence* youngest = running_.back();
  running_.pop_back();
  free_slots_.push_back(youngest->slot());
  pages_.leave(*youngest);
  youngest->preempt();
  waiting_.insert(youngest);
  ++preemptions_;
}

void Scheduler::admit(Room* room, Batch* batch) {
  // What running prompts have yet to take is not available: else new ones would drive them out
  // again.
  int64_t promised = 0;
  const auto missing = [&](const Sequence& sequence) {
    const int64_t held = static_cast<int64_t>(sequence.pages().size());
    return std::max<int64_t>(pages_.pages_for(sequence.length()) - held, 0);
  };
  for (const Sequence* sequence : running_) promised += missing(*sequence);
  while (!waiting_.empty() && room->rows > 0 && running() < limits_.running) {
    Sequence* next = *waiting_.begin();
    const int64_t left = pages_.available() - promised;
    int64_t needed = pages_.pages_for(next->length());
    if (needed > left) needed -= pages_.shared_if_started(*next);
    if (needed > left) return;
    waiting_.erase(waiting_.begin());
    pages_.start(*next, free_slots_.back());
    free_slots_.pop_back();
    running_.insert(std::upper_bound(running_.begin(), running_.end(), next, Older()), next);
    const int64_t rows = give(next->computed(), next->remaining(), room);
    const int64_t held = static_cast<int64_t>(next->pages().size());
    pages_.take(std::max<int64_t>(pages_.pages_for(next->computed() + rows) - held, 0), *next);
    promised += missing(*next);
    if (rows > 0) batch->items.push_back({.sequence = next, .rows = rows});
  }
}

}  // namespace lockstep

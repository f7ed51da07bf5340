// SPDX-License-Identifier: Apache-2.0
// The plan sets how many rows each sequence computes; then pages are taken for them.
#include "coordinator/scheduler/scheduler.h"

#include <algorithm>
#include <string_view>

#include "base/check.h"
#include "base/fault_point.h"
#include "base/text_map.h"
#include "coordinator/sampling/sampler.h"

namespace lockstep {
namespace {

// While no sequence decodes, a step with prompts of several clients may take this many times the
// budget, or this many times as long as a step with one row, whichever is longer. It must not take
// more, because a new client waits until the step ends.
constexpr int64_t kPromptBudgets = 4;

// A running sequence may need a row and an output in every step. So no more sequences run than a
// step has rows, or outputs. A sequence whose prompt is scored may use all remaining outputs.
SchedulerLimits effective(SchedulerLimits limits) {
  LOCKSTEP_CHECK(limits.rows > 0 && limits.outputs > 0 && limits.running > 0);
  limits.running = std::min({limits.running, limits.rows, limits.outputs});
  limits.prefill_chunk = std::max<int64_t>(limits.prefill_chunk, 1);
  return limits;
}

}  // namespace

Scheduler::Scheduler(const SchedulerLimits& limits)
    : limits_(effective(limits)),
      pages_(limits.pages, limits.page_tokens, limits.rope, limits.prefix) {
  for (int64_t slot = limits_.running; slot > 0; --slot) {
    free_slots_.push_back(static_cast<int32_t>(slot - 1));
  }
}

void Scheduler::add(std::span<Sequence* const> choices) {
  for (Sequence* choice : choices) {
    LOCKSTEP_CHECK(choice->waits());
    LOCKSTEP_CHECK(pages_.pages_for(choice->length()) <= pages_.total());
    choice->queued(++added_, choices[0]);
  }
  // The prompt's scores, sent by the first choice, precede any choice's tokens.
  const bool scores_prompt = choices[0]->request().prompt_logprobs >= 0;
  const size_t queued = scores_prompt || pages_.can_share(*choices[0]) ? 1 : choices.size();
  for (Sequence* choice : choices.first(queued)) queue_.add(choice);
  if (queued == choices.size()) return;
  followers_[choices[0]].assign(choices.begin() + 1, choices.end());
  followers_count_ += static_cast<int64_t>(choices.size()) - 1;
}

void Scheduler::release_followers(const Sequence* first) {
  const auto found = followers_.find(first);
  if (found == followers_.end()) return;
  followers_count_ -= static_cast<int64_t>(found->second.size());
  for (Sequence* follower : found->second) queue_.add(follower);
  followers_.erase(found);
}

void Scheduler::leave(Sequence* sequence) {
  release_followers(sequence);
  full_draws_.forget(sequence);
  if (sequence->state() == Sequence::State::kRunning) {
    LOCKSTEP_CHECK(std::erase(running_, sequence) == 1);
    free_slots_.push_back(sequence->slot());
    count_running(*sequence, -1);
    pages_.leave(*sequence);
  } else {
    queue_.remove(sequence);
  }
}

void Scheduler::remove(Sequence* sequence) {
  leave(sequence);
  sequence->release();
}

void Scheduler::withdraw(Sequence* sequence) {
  leave(sequence);
  if (sequence->state() == Sequence::State::kRunning) sequence->preempt();
}

void Scheduler::computed(const Batch& batch, int64_t time_ns) {
  if (time_ns > 0 && batch.rows > 0) cost_.learn(batch.work, time_ns);
  for (Sequence* sequence : batch.sequences) {
    if (sequence->state() != Sequence::State::kRunning) continue;  // It ended meanwhile.
    sequence->advance(sequence->planned());
    pages_.publish(*sequence);
    if (sequence->computed() >= sequence->prompt_tokens()) release_followers(sequence);
  }
}

Batch Scheduler::schedule() {
  plan();
  Batch batch;
  for (size_t index = 0; index < running_.size(); ++index) {
    Sequence* sequence = running_[index];
    sequence->set_planned(reserve(index, sequence->planned()));
    if (sequence->planned() == 0) continue;
    batch.sequences.push_back(sequence);
    batch.work = batch.work.with(sequence->computed(), sequence->planned());
  }
  batch.rows = batch.work.rows;
  LOCKSTEP_CHECK(batch.rows <= limits_.rows);
  LOCKSTEP_CHECK(batch.rows > 0 || (running_.empty() && waiting() == 0));
  return batch;
}

// ---- Parts 1 and 2 ----

void Scheduler::plan() {
  Room room;
  std::vector<Sequence*> prompts;
  reserved_pages_ = 0;
  blocked_ = nullptr;
  for (Sequence* sequence : running_) {
    compute_again_if_outgrown(*sequence);
    reserved_pages_ += missing(*sequence);
    sequence->set_planned(sequence->remaining() == 1 ? 1 : 0);
    if (sequence->planned() == 0) prompts.push_back(sequence);
  }
  full_draws_.limit(running_);
  for (const Sequence* sequence : running_) {
    if (sequence->planned() > 0) room.work = room.work.with(sequence->computed(), 1);
  }
  room.rows = std::min(limits_.rows - room.work.rows, limits_.prefill_chunk);
  const bool decodes = room.work.rows > 0;
  if (!prompts.empty() && prompts[0] == running_[0]) give(*prompts[0], 1, &room);
  queue_.begin(prompts);
  room.budget_ns = budget_ns(decodes);
  int first_draws = 0;
  while (room.rows > 0) {
    Sequence* next = queue_.next();
    if (next == nullptr || prefix_left(*next) > limits_.rows - room.work.rows) break;
    const bool starts = next->state() != Sequence::State::kRunning;
    const bool may_be_full = starts && may_need_all_logits(next->request().sampling);
    if (may_be_full && first_draws == kFirstDraws) {
      queue_.block(FairQueue::Starters::kAll);
      continue;
    }
    if (may_be_full) ++first_draws;
    if (starts && !start(next)) {
      if (!must_wait(*next)) blocked_ = next;
      queue_.block(starters());
      continue;
    }
    const int64_t rows = give(*next, queue_.rows_left(), &room);
    queue_.take(rows, /*all=*/next->planned() == next->remaining());
  }
}

int64_t Scheduler::budget_ns(bool decodes) const {
  if (decodes || limits_.step_budget_ns == 0) return limits_.step_budget_ns;
  if (queue_.clients() < 2) return 0;
  const auto smallest = static_cast<int64_t>(cost_.time_ns({.rows = 1}));
  return kPromptBudgets * std::max(limits_.step_budget_ns, smallest);
}

void Scheduler::compute_again_if_outgrown(Sequence& sequence) {
  if (pages_.rotates_as_before(sequence)) return;
  const int32_t slot = sequence.slot();
  pages_.leave(sequence);
  sequence.preempt();
  pages_.start(sequence, slot);
}

int64_t Scheduler::outputs_left() const {
  int64_t left = limits_.outputs;
  for (const Sequence* sequence : running_) {
    left -= sequence->wanted_rows(sequence->computed(), sequence->planned());
  }
  return left;
}

// If no output is left, takes one from a sequence that has several because its prompt is scored.
// There is such a sequence, because fewer sequences run than a step has outputs.
void Scheduler::keep_output() {
  if (outputs_left() > 0) return;
  for (Sequence* sequence : running_) {
    if (sequence->wanted_rows(sequence->computed(), sequence->planned()) < 2) continue;
    sequence->set_planned(sequence->planned() - 1);
    return;
  }
  LOCKSTEP_CHECK(false);
}

int64_t Scheduler::prefix_left(const Sequence& sequence) {
  const int64_t position = sequence.computed() + sequence.planned();
  return std::max<int64_t>(sequence.prepared().prefix().rows - position, 0);
}

int64_t Scheduler::give(Sequence& sequence, int64_t max, Room* room) const {
  const int64_t position = sequence.computed() + sequence.planned();
  const int64_t prefix = prefix_left(sequence);
  max = std::max(max, prefix);
  const int64_t wanted = std::min(max, sequence.remaining() - sequence.planned());
  const int64_t unwanted = std::max<int64_t>(sequence.first_wanted_row() - position, 0);
  int64_t rows = std::min({wanted, std::max(room->rows, prefix), unwanted + outputs_left()});
  if (rows > 1 && fault_point("scheduler.short_chunk")) rows = std::max<int64_t>(prefix, 1);
  if (room->budget_ns > 0) {
    const int64_t fit = cost_.rows_within(room->budget_ns, room->work, position, rows);
    rows = std::min(rows, std::max({fit, kMinPromptRows - room->given, prefix}));
  }
  room->rows = rows < wanted ? 0 : std::max<int64_t>(room->rows - rows, 0);
  room->given += rows;
  room->work = room->work.with(position, rows);
  sequence.set_planned(sequence.planned() + rows);
  return rows;
}

int64_t Scheduler::missing(const Sequence& sequence) const {
  const int64_t held = static_cast<int64_t>(sequence.pages().size());
  return std::max<int64_t>(pages_.pages_for(sequence.length()) - held, 0);
}

bool Scheduler::fits(const Sequence& sequence) const {
  const int64_t left = pages_.available() - reserved_pages_;
  const int64_t needed = pages_.pages_for(sequence.length());
  return running() < limits_.running &&
         (needed <= left || needed - pages_.shared_if_started(sequence) <= left);
}

int64_t Scheduler::own_share() const { return std::max<int64_t>(running() / kClientShares, 1); }

bool Scheduler::must_wait(const Sequence& sequence) const {
  if (blocked_ == nullptr) return false;
  if (sequence.request().priority != blocked_->request().priority) return true;
  if (running_of_client(sequence) >= running_of_client(*blocked_)) return true;
  return starters() == FairQueue::Starters::kBegun && !sequence.has_begun();
}

FairQueue::Starters Scheduler::starters() const {
  const int64_t of_client = running_of_client(*blocked_);
  if (of_client == 0) return FairQueue::Starters::kNone;
  const bool only_begun = blocked_->has_begun() && of_client <= own_share();
  return only_begun ? FairQueue::Starters::kBegun : FairQueue::Starters::kAll;
}

bool Scheduler::start(Sequence* next) {
  if (must_wait(*next)) return false;
  if (!fits(*next)) make_room(*next);
  if (!fits(*next)) return false;
  queue_.start();
  keep_output();
  pages_.start(*next, free_slots_.back());
  free_slots_.pop_back();
  count_running(*next, 1);
  next->set_planned(0);
  reserved_pages_ += missing(*next);
  running_.insert(std::upper_bound(running_.begin(), running_.end(), next, ServedBefore()), next);
  return true;
}

// Preempts as many sequences as must go so that `sequence` fits. If all that may be preempted are
// not enough, preempts none.
void Scheduler::make_room(const Sequence& sequence) {
  const int32_t priority = sequence.request().priority;
  const int64_t kept = std::max(running_of_client(sequence) + 1, own_share());  // Per client.
  TextMap<std::string_view, int64_t> taken;                                     // By client.
  int64_t left = pages_.available() - reserved_pages_;
  const int64_t needed = pages_.pages_for(sequence.length()) - pages_.shared_if_started(sequence);
  std::vector<size_t> victims;
  for (size_t index = running_.size(); index-- > 1;) {
    const Sequence& other = *running_[index];
    if (other.request().priority < priority) break;
    if (other.request().priority == priority) {
      int64_t& taken_of_it = taken[other.request().client];
      if (running_of_client(other) - taken_of_it <= kept) continue;
      ++taken_of_it;
    }
    victims.push_back(index);
    left += static_cast<int64_t>(other.pages().size()) + missing(other);
    if (needed > left) continue;
    for (const size_t victim : victims) preempt(victim);
    return;
  }
}

int64_t Scheduler::running_of_client(const Sequence& sequence) const {
  const EngineRequest& request = sequence.request();
  const auto found = running_by_client_.find({request.priority, request.client});
  return found == running_by_client_.end() ? 0 : found->second;
}

void Scheduler::count_running(const Sequence& sequence, int64_t change) {
  const EngineRequest& request = sequence.request();
  const auto entry = running_by_client_.try_emplace({request.priority, request.client}).first;
  entry->second += change;
  if (entry->second == 0) running_by_client_.erase(entry);
}

// ---- Part 3 ----

int64_t Scheduler::reserve(size_t index, int64_t rows) {
  if (rows == 0) return 0;
  Sequence& sequence = *running_[index];
  const int64_t held = static_cast<int64_t>(sequence.pages().size());
  const auto missing = [&] { return pages_.pages_for(sequence.computed() + rows) - held; };
  if (running_.size() > index + 1 && fault_point("scheduler.preempt")) {
    preempt(victim_behind(index));
  }
  while (missing() > pages_.available() && running_.size() > index + 1) {
    preempt(victim_behind(index));
  }
  if (missing() > pages_.available()) {
    // The last sequence takes all pages that are available. It keeps its pages until an earlier
    // sequence needs them.
    LOCKSTEP_CHECK(index > 0);
    rows = (held + pages_.available()) * pages_.page_tokens() - sequence.computed();
    if (sequence.computed() + rows < sequence.prepared().prefix().rows) return 0;
  }
  pages_.take(std::max<int64_t>(missing(), 0), sequence);
  return rows;
}

size_t Scheduler::victim_behind(size_t index) const {
  size_t victim = running_.size() - 1;
  const int32_t priority = running_[victim]->request().priority;
  int64_t max = std::max(running_of_client(*running_[victim]), own_share());
  for (size_t other = victim - 1; other > index; --other) {
    if (running_[other]->request().priority != priority) break;
    if (running_of_client(*running_[other]) <= max) continue;
    victim = other;
    max = running_of_client(*running_[other]);
  }
  return victim;
}

void Scheduler::preempt(size_t index) {
  Sequence* sequence = running_[index];
  running_.erase(running_.begin() + static_cast<int64_t>(index));
  free_slots_.push_back(sequence->slot());
  count_running(*sequence, -1);
  reserved_pages_ -= missing(*sequence);
  pages_.leave(*sequence);
  sequence->preempt(/*for_others=*/true);
  queue_.add(sequence);
  ++preemptions_;
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// The engine as a state machine: which requests there are, what the group computes next. Events go
// in, actions come out; there is no thread, clock, lock or stub in it, so that a test can run it on
// virtual time. All sequence state is in here.
//   group_formed, submit -> RunStep .. results -> RunStep, then AppendEvent ... CloseStream
//                                      results -> FetchLogits .. logits -> RunStep, then ...
// What a step's answers mean for the next step (token ids, ends, pages) is decided at once; texts,
// stop strings and events come after the next step was given to the group, so that the workers
// compute meanwhile. A stop string is thus found one step late: what that step drew is dropped.
//
// A group that is lost takes nothing along but KV pages: the next one computes the tokens of all
// requests again and goes on.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/engine/engine_actions.h"
#include "coordinator/engine/engine_job.h"
#include "coordinator/engine/engine_options.h"
#include "coordinator/engine/flight.h"
#include "coordinator/scheduler/scheduler.h"
#include "coordinator/text/tokenizer.h"

namespace lockstep {

// One thread at a time. After each event, or several, take_actions() says what is to be done, in
// order, until it has nothing more. Times are milliseconds of a steady clock.
class EngineCore {
 public:
  // `tokenizer` may be null: no text in events. It outlives the core.
  EngineCore(const Tokenizer* tokenizer, const EngineOptions& options);

  // ---- The group. An answer that nothing was asked for is ignored. ----
  // Requests go on with it, but those whose readers were told something of another numeric class
  // or other weights: they end with kUnavailable. Those that do not fit wait for a larger group.
  void group_formed(const GroupInfo& info);
  // Requests wait for the next one. One at whose rows three groups are lost ends with kInternal.
  void group_lost(const absl::Status& why);
  // What the next group should be like.
  GroupWish wish() const;
  // In rank order; how long the step took, 0: not known.
  void results(std::vector<cluster::StepResult> results, int64_t step_ns = 0);
  void logits(const std::vector<float>& logits);  // Over the whole vocabulary.

  // ---- Requests. Before the first group one that is submitted ends with kUnavailable. ----
  void submit(std::unique_ptr<Job> job);
  // Its choices end with kCancelled, its stream with `status`. Without effect once it has ended.
  void cancel(const Stream* stream, const absl::Status& status = absl::OkStatus());
  // Closes its stream with `why`, without a further event.
  void cut_off(const Stream* stream, const absl::Status& why);
  // The same, unless rows of it were computed.
  void turn_away(const Stream* stream, const absl::Status& why);

  // ---- The end: what has not ended by then is cancelled, with the status kCancelled ----
  void drain(int64_t deadline_ms);
  // Everything is cancelled, with the status kCancelled, and the group forgotten.
  void stop();

  // When tick() has something to do next: 0 means take_actions() has, nothing: none.
  std::optional<int64_t> wake_at() const;
  void tick(int64_t now_ms);

  // Chooses the next step where none is under way, and returns it at once: what is left to tell
  // readers comes with the next call. `trace`: that step asks ranks for their operators' times.
  std::vector<EngineAction> take_actions(bool trace = false);

  bool has_group() const { return scheduler_ != nullptr; }
  // Requests wait for one, or may come.
  bool wants_group() const { return !drain_at_.has_value() || has_open_jobs(); }
  Demand demand() const;      // Without a group, or before it has them all, requests are to run.
  EngineStats stats() const;  // All but `ready` and the times.

 private:
  template <typename Action, typename... Args>
  void act(Args&&... args) {
    actions_.emplace_back(std::in_place_type<Action>, Action{std::forward<Args>(args)...});
  }

  // The group and its steps.
  void run_step(bool trace);
  std::vector<std::shared_ptr<Stream>> note_started(const Batch& batch);
  void take_scores();
  void draw_rest(const std::vector<float>* logits);
  absl::StatusOr<bool> draw(Sequence& sequence, int output, const std::vector<float>* logits);
  absl::Status check_logits(const std::vector<float>& logits) const;
  void refuse_group(const absl::Status& why);
  Job& job_of(const Sequence& sequence) { return *jobs_.at(sequence.stream()); }
  bool has_open_jobs() const { return jobs_.size() > closed_.size(); }
  bool has_work() const { return has_group() && scheduler_->running() + scheduler_->waiting() > 0; }

  // From a lost group to the next.
  bool fits(const Job& job) const;
  void enqueue(Job& job);
  void withdraw(Job& job);
  void admit();
  void acquit(Job& job);
  void acquit_computed();
  void blame(const absl::Status& why);
  void accuse(Job& job, int64_t end, const absl::Status& why);
  void judge(Job& job);
  void forget_group();

  // Requests, what their readers are told, and their ends.
  void tell_all();
  void emit(Sequence& sequence, StreamEvent event, const SequenceNews& news);
  void note_told(Job& job);
  void leave_scheduler(const Job& job, Sequence& choice);
  void cancel(Job& job, const absl::Status& status);
  void fail(Job& job, const absl::Status& status);
  std::optional<int64_t> next_end() const;
  void end_late(int64_t now_ms);
  bool group_is_lost() const { return !has_group() && info_.ranks > 0; }
  void close(Job& job, const absl::Status& status);
  std::vector<Job*> jobs_in_order();
  void sweep();

  const Tokenizer* const tokenizer_;
  const EngineOptions options_;
  std::vector<EngineAction> actions_;
  GroupInfo info_;
  std::unique_ptr<Scheduler> scheduler_;  // Null: there is no group.
  std::optional<Flight> flight_;
  StepResults answers_;  // To the last step: freed while the next one is computed.
  std::vector<PromptScores> untold_scores_;  // Told before what was drawn.
  std::vector<Untold> untold_;
  std::unordered_map<const Stream*, std::unique_ptr<Job>> jobs_;
  std::set<std::pair<int64_t, const Stream*>> deadlines_;  // Of open jobs that have one.
  std::vector<const Stream*> closed_;  // Jobs that go away when no step is under way.
  int64_t parked_ = 0;                 // Open choices of jobs that are not in the scheduler.
  bool admit_due_ = false;             // Jobs may have to enter the scheduler, or leave it.
  Job* alone_ = nullptr;               // The only job in it, since groups were lost at its rows.
  int64_t struck_ = 0;                 // Open jobs that have strikes.
  EngineStats stats_;
  uint64_t submitted_ = 0;
  uint64_t step_ = 0;
  int64_t busy_at_ = 0;     // When there last was something to do.
  bool had_event_ = false;  // Since the last tick().
  bool null_step_due_ = false;
  std::optional<int64_t> drain_at_;
  std::optional<int64_t> lost_at_;  // When tick() first saw that the group is gone.
};

}  // namespace lockstep

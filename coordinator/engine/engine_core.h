// SPDX-License-Identifier: Apache-2.0
// The engine as a state machine: it keeps all requests and decides what the group computes next.
// Events go in, actions come out; it has no thread, clock, lock or stub, so that a test can run it
// on virtual time. It owns all sequence state.
//   group_formed, submit -> RunStep .. results -> RunStep, then AppendEvent ... CloseStream
//                                      results -> FetchLogits .. logits -> RunStep, then ...
// Changes that a step's answers make to the next step (token ids, ends, pages) are made at once;
// texts, stop strings and events follow after the next step is sent, so that the workers compute
// meanwhile. So a stop string is found one step late; the choice's output of that step is dropped.
//
// A lost group loses only KV pages: the next one computes the tokens of all requests again and
// continues them.
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
#include "coordinator/engine/step_in_flight.h"
#include "coordinator/scheduler/scheduler.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace lockstep {

// One thread at a time. After one or more events, take_actions() returns the actions, in order,
// until none is left. Times are milliseconds of a steady clock.
class EngineCore {
 public:
  // `tokenizer` may be null: no text in events. It outlives the core.
  EngineCore(const Tokenizer* tokenizer, const EngineOptions& options);

  // ---- The group. results() and logits() have no effect if the core did not ask for them. ----
  // Requests continue. A request ends with kUnavailable if its events are from a group with another
  // numeric class, other weights or (except in a fast class) other kernels. It ends with kInternal
  // if it has three strikes. A request that does not fit waits for a larger group.
  void group_formed(const GroupInfo& info);
  void group_lost(const absl::Status& why);
  // Requirements for the next group.
  GroupRequirements requirements() const;
  // `results` are in rank order; `step_ns` is the step's duration, 0: unknown.
  void results(std::vector<cluster::StepResult> results, int64_t step_ns = 0);
  void logits(const std::vector<float>& logits);  // Logits of the whole vocabulary.

  // ---- Requests. Before the first group, each ends with kUnavailable. ----
  void submit(std::unique_ptr<Job> job);
  // A request's choices end with kCancelled, its stream with `status`. No effect after its end.
  void cancel(const Stream* stream, const absl::Status& status = absl::OkStatus());
  // Closes the request's stream with `why`, without another event.
  void cut_off(const Stream* stream, const absl::Status& why);
  // Like cut_off(), but without effect if rows of the request were computed.
  void reject_unstarted(const Stream* stream, const absl::Status& why);

  // ---- The end: requests that are open at the deadline are cancelled, with status kCancelled ----
  void drain(int64_t deadline_ms);
  // Cancels everything with status kCancelled and drops the group.
  void stop();

  // When tick() and then take_actions() are due; 0: now; nullopt: only after the next event.
  std::optional<int64_t> wake_at() const;
  void tick(int64_t now_ms);

  // If no step is running, chooses the next one; texts and events of the last step then follow with
  // the next call. `trace`: the step asks ranks for their operators' times.
  std::vector<EngineAction> take_actions(bool trace = false);

  bool has_group() const { return scheduler_ != nullptr; }
  // True if requests wait for a group, or may still arrive.
  bool wants_group() const { return !drain_at_.has_value() || has_open_jobs(); }
  Demand demand() const;      // Whether work waits for the current group, or for a larger one.
  EngineStats stats() const;  // All fields except `ready` and the times.

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
  void refuse_group(const absl::Status& why);
  Job& job_of(const Sequence& sequence) { return *jobs_.at(sequence.stream()); }
  bool has_open_jobs() const { return jobs_.size() > closed_.size(); }
  bool has_work() const { return has_group() && scheduler_->running() + scheduler_->waiting() > 0; }

  // Recovery: from a lost group to the next.
  bool fits(const Job& job) const;
  void enqueue(Job& job);
  void withdraw(Job& job);
  void admit();
  void clear_strikes(Job& job);
  void clear_computed_strikes();
  void find_suspects(const absl::Status& why);
  void mark_suspected(Job& job, int64_t end, const absl::Status& why);
  void count_strike(Job& job);
  void forget_group();

  // Requests, their events and their ends.
  void send_events();
  void emit(Sequence& sequence, StreamEvent event, const SequenceUpdate& update);
  void record_origin(Job& job);
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
  std::unique_ptr<Scheduler> scheduler_;  // Null: no group.
  std::optional<StepInFlight> in_flight_;
  StepResults answers_;  // Answers to the last step: freed while the next one runs.
  std::vector<PromptScores> unsent_scores_;  // Sent before unsent_tokens_.
  std::vector<UnsentToken> unsent_tokens_;
  std::unordered_map<const Stream*, std::unique_ptr<Job>> jobs_;
  std::set<std::pair<int64_t, const Stream*>> deadlines_;  // The deadlines of open jobs.
  std::vector<const Stream*> closed_;  // Jobs that are deleted when no step is running.
  int64_t unscheduled_ = 0;            // Open choices of jobs outside the scheduler.
  bool admit_due_ = false;             // Jobs may have to enter or leave the scheduler.
  Job* isolated_ = nullptr;  // The scheduler's only job, because it has two strikes; null: none.
  int64_t suspects_ = 0;     // Open jobs that have strikes.
  EngineStats stats_;
  uint64_t submitted_ = 0;
  uint64_t step_ = 0;
  int64_t busy_at_ = 0;     // When there was last something to do.
  bool had_event_ = false;  // An event arrived since the last tick().
  bool null_step_due_ = false;
  std::optional<int64_t> drain_at_;
  std::optional<int64_t> lost_at_;  // When tick() first saw the loss of the group.
};

}  // namespace lockstep

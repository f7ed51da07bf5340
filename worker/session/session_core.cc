// SPDX-License-Identifier: Apache-2.0
// A request of an epoch is answered with that epoch's number, however late, so that the coordinator
// can recognize answers to past epochs.
#include "worker/session/session_core.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/fault_point.h"
#include "base/status.h"

namespace lockstep {
namespace {

using session_action::AbortRunning;
using session_action::End;
using session_action::FinishSending;
using session_action::Run;
using session_action::Send;

// The maximum number of waiting messages. The coordinator needs only two: it sends a Start and the
// null step together, and otherwise waits for each answer.
constexpr size_t kMaxQueued = 16;

// The checkpoint or the seed of the weights, and how they are read: everything about the weights
// that their stamp does not include.
std::string source_of(const cluster::Assignment& assignment) {
  return fmt::format("{}#{}#{}#{}", assignment.checkpoint(), assignment.random_weights(),
                     assignment.random_seed(), assignment.embedding_in_file());
}

// Errors that result from another rank's end, or from an abort: not this rank's fault.
bool is_peers_fault(absl::StatusCode code) {
  return code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kAborted ||
         code == absl::StatusCode::kCancelled || code == absl::StatusCode::kDeadlineExceeded;
}

cluster::WorkerMessage failure_of(const absl::Status& status) {
  cluster::WorkerMessage message;
  message.mutable_failure()->set_message(message_of(status));
  message.mutable_failure()->set_code(static_cast<int32_t>(status.code()));
  message.mutable_failure()->set_peer_lost(is_peers_fault(status.code()));
  return message;
}

const char* name_of(const cluster::CoordinatorMessage& message) {
  if (message.has_start()) return "Start";
  return message.has_step() ? "Step" : "LogitsRequest";
}

}  // namespace

SessionCore::SessionCore(cluster::Hello hello, WeightsInMemory* in_memory)
    : hello_(std::move(hello)), in_memory_(in_memory) {}

std::vector<SessionAction> SessionCore::take_actions() { return std::exchange(actions_, {}); }

void SessionCore::connected(int64_t now) {
  cluster::WorkerMessage message;
  *message.mutable_hello() = hello_;
  send(0, std::move(message));
  next_tick_ = now + kHeartbeatMs;
}

// --- Messages of the coordinator

void SessionCore::message(int64_t, cluster::CoordinatorMessage message) {
  if (ending_.has_value()) return;
  if (message.has_refusal()) return end(absl::PermissionDeniedError(message.refusal().reason()));
  if (message.has_assignment()) {
    return on_assignment(message.epoch(), std::move(*message.mutable_assignment()));
  }
  if (message.has_preload()) {
    return on_preload(message.epoch(), std::move(*message.mutable_preload()));
  }
  if (message.epoch() != epoch_ || phase_ == Phase::kOver) return;
  if (message.has_abort()) return end_epoch();
  if (!message.has_start() && !message.has_step() && !message.has_logits()) return;
  if (queue_.size() >= kMaxQueued) {
    return fail(invalid_argument("messages that wait must be at most {1}, found {0}",
                                 queue_.size() + 1, kMaxQueued));
  }
  queue_.push_back(std::move(message));
  run_next();
}

void SessionCore::on_assignment(uint64_t epoch, cluster::Assignment assignment) {
  if (epoch <= epoch_) {
    if (epoch > 0) return;
    return send(0,
                failure_of(invalid_argument("an assignment's epoch must be 1 or more, found 0")));
  }
  if (!preload_serves(assignment)) abort_running();
  queue_.clear();
  preload_.reset();
  epoch_ = epoch;
  phase_ = Phase::kChecking;
  serves_ = false;
  preloaded_ = false;
  task_ = {epoch, std::make_shared<const cluster::Assignment>(std::move(assignment))};
  bytes_reported_ = 0;
  run_next();
}

bool SessionCore::preload_runs() const {
  return running_.has_value() && running_->kind == Work::kPreload;
}

// True if the running preload loads exactly the weights that this assignment needs.
bool SessionCore::preload_serves(const cluster::Assignment& assignment) const {
  if (!preload_runs() || assignment.reload()) return false;
  const cluster::Assignment& preload = *running_->task.assignment;
  return source_of(preload) == source_of(assignment) &&
         preload.program().SerializeAsString() == assignment.program().SerializeAsString();
}

// A worker that has a rank ignores a preload.
void SessionCore::on_preload(uint64_t epoch, cluster::Assignment assignment) {
  if (phase_ != Phase::kOver) return;
  abort_running();
  preload_ = {epoch, std::make_shared<const cluster::Assignment>(std::move(assignment)),
              /*preload=*/true};
  run_next();
}

// --- Work, one piece at a time

void SessionCore::run_next() {
  if (running_.has_value()) return;
  if (phase_ == Phase::kOver) {
    if (preload_.has_value()) run({.kind = Work::kCheck}, *preload_);
    return;
  }
  if (phase_ == Phase::kChecking) return run({.kind = Work::kCheck}, task_);
  if (queue_.empty()) return;
  cluster::CoordinatorMessage message = std::move(queue_.front());
  queue_.pop_front();
  run_message(std::move(message));
}

void SessionCore::run_message(cluster::CoordinatorMessage message) {
  const Phase wanted = message.has_start() ? Phase::kReady : Phase::kStarted;
  if (phase_ != wanted) {
    return fail(failed_precondition("a {} arrived {}", name_of(message),
                                    phase_ == Phase::kStarted ? "after the group was started"
                                                              : "before the group was started"));
  }
  const Work::Kind kind = message.has_start()  ? Work::kStart
                          : message.has_step() ? Work::kStep
                                               : Work::kLogits;
  run({.kind = kind, .message = std::move(message)}, task_);
}

void SessionCore::run(Work work, const Task& task) {
  work.epoch = task.epoch;
  work.assignment = task.assignment;
  running_ = Running{.kind = work.kind, .task = task};
  actions_.push_back(Run{std::move(work)});
}

void SessionCore::work_done(int64_t now, WorkResult result) {
  LOCKSTEP_CHECK(running_.has_value());
  const Running done = *std::exchange(running_, std::nullopt);
  remember(done, result);
  if (!result.device.ok()) give_up(now, done, result);
  if (ending_.has_value()) return end_if_idle();
  if (done.task.preload) {
    on_preload_done(done, std::move(result));
  } else if (done.task.epoch == epoch_ && phase_ != Phase::kOver) {
    if (!result.status.ok()) {
      fail(result.status);
    } else if (done.kind == Work::kCheck) {
      phase_ = Phase::kLoading;
      run_load(task_, result.stamp);
    } else {
      on_reply(done, std::move(result));
    }
  }
  run_next();
}

// Notes which weights are in memory now, even if no task needs them any more.
void SessionCore::remember(const Running& done, const WorkResult& result) {
  const bool loads = done.kind == Work::kLoad || done.kind == Work::kPreload;
  if (!loads || !result.status.ok()) return;
  *in_memory_ = {.program = done.task.assignment->program().SerializeAsString(),
                 .source = source_of(*done.task.assignment),
                 .stamp = result.stamp};
}

// Loads for a task whose assignment is valid, and whose weights have this stamp now.
void SessionCore::run_load(const Task& task, const std::string& stamp) {
  const cluster::Assignment& assignment = *task.assignment;
  const bool same = !assignment.reload() && !stamp.empty() && in_memory_->stamp == stamp &&
                    in_memory_->source == source_of(assignment) &&
                    !fault_point("session.forget_weights");
  const bool keep = same && in_memory_->program == assignment.program().SerializeAsString();
  if (!same) *in_memory_ = {};
  preloaded_ &= keep;
  run({.kind = task.preload ? Work::kPreload : Work::kLoad, .keep = keep, .reuse = same && !keep},
      task);
}

// Drops the result if another task has arrived since this preload began.
void SessionCore::on_preload_done(const Running& done, WorkResult result) {
  if (!preload_.has_value() || preload_->assignment != done.task.assignment) return;
  if (result.status.ok() && done.kind == Work::kCheck) return run_load(*preload_, result.stamp);
  preload_.reset();
  preloaded_ = result.status.ok();
  if (!preloaded_) {
    *result.reply.mutable_preloaded()->mutable_failure() = failure_of(result.status).failure();
  }
  send(done.task.epoch, std::move(result.reply));
}

void SessionCore::on_reply(const Running& done, WorkResult result) {
  if (done.kind == Work::kStart) {
    phase_ = Phase::kStarted;
    return;
  }
  serves_ |= phase_ == Phase::kStarted;
  if (done.kind == Work::kLoad) {
    phase_ = Phase::kReady;
    if (result.bytes_loaded > 0) {
      cluster::WorkerMessage all;
      all.mutable_progress()->set_bytes_done(result.bytes_loaded);
      all.mutable_progress()->set_bytes_total(result.bytes_loaded);
      send(done.task.epoch, std::move(all));
    }
  }
  send(done.task.epoch, std::move(result.reply));
}

// --- Ends of an epoch and of the connection

void SessionCore::fail(const absl::Status& status) {
  send(epoch_, failure_of(status));
  end_epoch();
}

void SessionCore::end_epoch() {
  phase_ = Phase::kOver;
  queue_.clear();
  abort_running();
}

void SessionCore::abort_running() {
  if (!running_.has_value() || std::exchange(running_->aborted, true)) return;
  actions_.push_back(AbortRunning{});
}

// This process cannot use the device any more.
void SessionCore::give_up(int64_t now, const Running& done, const WorkResult& result) {
  if (ending_.has_value()) return;
  send(done.task.epoch, failure_of(result.status.ok() ? result.device : result.status));
  hang_up(now, kHangUpMs, result.device);
}

// Ending the call would drop messages in flight, so the coordinator first gets time to receive
// them.
void SessionCore::hang_up(int64_t now, int64_t patience_ms, absl::Status why) {
  actions_.push_back(FinishSending{});
  ending_ = std::move(why);
  hang_up_at_ = now + patience_ms;
  next_tick_ = std::min(next_tick_, *hang_up_at_);
}

void SessionCore::closed() {
  hang_up_at_.reset();
  end(absl::OkStatus());
}

void SessionCore::stop(int64_t now) {
  if (ending_.has_value()) return closed();
  cluster::WorkerMessage message;
  message.mutable_goodbye();
  send(0, std::move(message));
  hang_up(now, kGoodbyeMs, absl::OkStatus());
  end_epoch();
}

void SessionCore::end(absl::Status status) {
  if (!ending_.has_value()) ending_ = std::move(status);
  end_epoch();
  end_if_idle();
}

void SessionCore::end_if_idle() {
  if (ended_ || running_.has_value() || hang_up_at_.has_value()) return;
  ended_ = true;
  next_tick_ = std::numeric_limits<int64_t>::max();
  actions_.push_back(End{*ending_});
}

bool SessionCore::ready() const {
  return !ending_.has_value() && (phase_ == Phase::kOver ? preloaded_ : serves_);
}

// --- Unrequested messages

// Until this epoch's assignment is checked, counters still have the last epoch's values.
uint64_t SessionCore::progress(const HeartbeatStats& heartbeat_stats) const {
  if (phase_ == Phase::kStarted) return kStepsProgress + heartbeat_stats.instructions;
  const bool waits_for_preload = phase_ == Phase::kChecking && preload_runs();
  const bool loads = phase_ == Phase::kLoading || phase_ == Phase::kReady || waits_for_preload;
  return loads ? heartbeat_stats.load_progress : 0;
}

void SessionCore::tick(int64_t now, const HeartbeatStats& heartbeat_stats) {
  if (now < next_tick_ || ended_) return;
  if (hang_up_at_.has_value() && now >= *hang_up_at_) return closed();
  next_tick_ = hang_up_at_.value_or(now + kHeartbeatMs);
  cluster::WorkerMessage beat;
  beat.mutable_heartbeat()->set_progress(progress(heartbeat_stats));
  beat.mutable_heartbeat()->set_waiting(heartbeat_stats.waiting);
  send(epoch_, std::move(beat));
  if (phase_ != Phase::kLoading || heartbeat_stats.bytes_loaded == bytes_reported_) return;
  bytes_reported_ = heartbeat_stats.bytes_loaded;
  cluster::WorkerMessage loaded;
  loaded.mutable_progress()->set_bytes_done(heartbeat_stats.bytes_loaded);
  loaded.mutable_progress()->set_bytes_total(heartbeat_stats.bytes_to_load);
  send(epoch_, std::move(loaded));
}

void SessionCore::send(uint64_t epoch, cluster::WorkerMessage message) {
  if (ending_.has_value()) return;
  message.set_epoch(epoch);
  actions_.push_back(Send{std::move(message)});
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// One thread carries out the core's actions; another one forms groups.
#include "coordinator/engine/engine.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/status.h"
#include "base/system/clock.h"
#include "base/threads/task_thread.h"
#include "coordinator/engine/inbox.h"
#include "coordinator/streams/notifier.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{100};  // After the first error of form(); then it doubles.
constexpr milliseconds kLongestPause{5000};
// Messages are read this often while workers compute, so that requests end by deadline,
// cancellation or hang-up even while a step is stuck.
constexpr int64_t kPollMs = 25;

// Adds up the time of the engine's thread, by activity.
class PartClock {
 public:
  explicit PartClock(EngineObserver* observer) : observer_(observer) {}

  // The time since the last call counts for `part`.
  void spent(EnginePart part) {
    const int64_t now = steady_now_ns();
    times_[static_cast<size_t>(part)] += now - since_ns_;
    observer_->on_part(part, since_ns_, now);
    since_ns_ = now;
  }
  const EngineTimes& times() const { return times_; }
  int64_t since_ns() const { return since_ns_; }

 private:
  EngineObserver* const observer_;
  int64_t since_ns_ = steady_now_ns();
  EngineTimes times_ = {};
};

bool begins_with_step(const std::vector<EngineAction>& actions) {
  return !actions.empty() && std::holds_alternative<engine_action::RunStep>(actions.front());
}

}  // namespace

// Everything except the inbox belongs to the engine's thread.
class Engine::Loop {
 public:
  Loop(Cluster* cluster, const Tokenizer* tokenizer, const EngineOptions& options)
      : inbox_(Inbox::create(options)),
        cluster_(cluster),
        observer_(options.observer != nullptr ? options.observer : &no_observer_),
        core_(tokenizer, options) {
    thread_ = std::thread([this] { run(); });
  }

  ~Loop() {
    stop();
    thread_.join();
  }

  void stop() {
    const std::shared_ptr<Group> group = inbox_->stop();
    cluster_->shutdown();
    if (group != nullptr) group->abort();
  }

  Inbox& inbox() { return *inbox_; }
  bool healthy() const { return cluster_->healthy(); }

 private:
  void run();
  void end(const absl::Status& why);
  void begin_forming();
  absl::StatusOr<std::unique_ptr<Group>> form(const GroupRequirements& requirements, bool first);
  void enter(std::unique_ptr<Group> group);
  bool awaits_workers() const { return computing_ != nullptr || fetching_; }
  bool receive();
  absl::Status receive_results(int64_t until_ms);
  absl::Status receive_logits(int64_t until_ms);
  void feed(Messages messages);
  void leave(const absl::Status& why);
  void publish();

  void perform(engine_action::RunStep& action);
  void perform(engine_action::FetchLogits& action);
  void perform(engine_action::NoteStarted& action);
  void perform(engine_action::AppendEvent& action);
  void perform(engine_action::CloseStream& action);
  void perform(engine_action::LeaveGroup& action);
  void perform_all();
  std::vector<EngineAction> take_actions() { return core_.take_actions(observer_->wants_trace()); }
  void report(std::vector<cluster::StepResult>& results);

  const std::shared_ptr<Inbox> inbox_;
  Cluster* const cluster_;
  EngineObserver no_observer_;
  EngineObserver* const observer_;
  EngineCore core_;
  std::shared_ptr<Group> group_;
  std::unique_ptr<TaskThread> former_ = std::make_unique<TaskThread>();
  bool forming_ = false;  // Until the inbox delivers the group that former_ forms.
  absl::Status lost_;     // If set, leave the group with this error after the pending actions.
  bool formed_before_ = false;
  bool answered_ = true;           // The last group completed a step.
  Demand demand_ = Demand::kNone;  // The demand last reported to the cluster.
  // The step that the group is computing; null: none.
  std::shared_ptr<const cluster::Step> computing_;
  bool fetching_ = false;  // The group was asked for logits of its last step, and has not answered.
  int64_t sent_ns_ = 0;
  PartClock clock_{observer_};
  Notifier notifier_;
  std::thread thread_;
};

void Engine::Loop::run() {
  for (;;) {
    if (group_ == nullptr && !forming_ && core_.wants_group()) begin_forming();
    Messages messages = inbox_->take(awaits_workers() ? 0 : core_.wake_at());
    clock_.spent(EnginePart::kIdle);
    if (messages.stopping) return end(absl::CancelledError("the server is stopping"));
    auto formed = std::exchange(messages.formed, std::nullopt);
    feed(std::move(messages));
    if (formed.has_value()) {
      forming_ = false;
      if (!formed->ok()) return end(formed->status());
      enter(*std::move(*formed));
    }
    core_.tick(steady_now_ms());
    perform_all();
    if (awaits_workers() && !receive()) perform_all();
  }
}

// Ends the engine: after stop(), or because no first group could be formed.
void Engine::Loop::end(const absl::Status& why) {
  former_.reset();  // Its form() has returned, or returns because stop() shut the cluster down.
  Messages rest = inbox_->end(
      formed_before_ ? absl::InternalError(fmt::format("the engine ended: {}", message_of(why)))
                     : why);
  feed(std::move(rest));
  core_.stop();
  group_ = nullptr;
  computing_ = nullptr;
  fetching_ = false;
  perform_all();
}

void Engine::Loop::begin_forming() {
  forming_ = true;
  former_->post(
      [this, requirements = core_.requirements(), first = !formed_before_, answered = answered_] {
        // Pause, so that groups that never answer are not formed in a tight loop.
        if (!answered) inbox_->wait_stopping(kFirstPause);
        inbox_->formed(form(requirements, first));
      });
}

// Runs on former_'s thread. After the first group, forming is retried without limit: the error may
// come from a worker that will be replaced.
absl::StatusOr<std::unique_ptr<Group>> Engine::Loop::form(const GroupRequirements& requirements,
                                                          bool first) {
  for (milliseconds pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    // Without this check, between stop() and the cluster's shutdown, workers would load for
    // nothing.
    if (inbox_->wait_stopping(milliseconds(0))) {
      return absl::CancelledError("the server is stopping");
    }
    absl::StatusOr<std::unique_ptr<Group>> group = cluster_->form(requirements);
    if (group.ok() || first) return group;
    if (group.status().code() == absl::StatusCode::kCancelled) return group;
    spdlog::warn("no group of workers, trying again in {} ms: {}", pause.count(),
                 message_of(group.status()));
    if (inbox_->wait_stopping(pause)) return absl::CancelledError("the server is stopping");
  }
}

void Engine::Loop::enter(std::unique_ptr<Group> group) {
  if (std::exchange(formed_before_, true)) {  // A warning, like the log line of the loss.
    const GroupInfo& info = group->info();
    spdlog::warn("a group of {} is ready again, epoch {}", count_of(info.ranks, "worker"),
                 info.epoch);
  }
  answered_ = false;
  group_ = std::move(group);
  inbox_->open(group_);
  core_.group_formed(group_->info());
}

// Waits for the workers' answer, but at most kPollMs, and only until the core's next tick() is due.
// False: the group was lost.
bool Engine::Loop::receive() {
  const int64_t next_poll = steady_now_ms() + kPollMs;
  const int64_t until = std::min(next_poll, core_.wake_at().value_or(next_poll));
  const absl::Status status = fetching_ ? receive_logits(until) : receive_results(until);
  if (status.ok()) return true;
  leave(status);
  return false;
}

absl::Status Engine::Loop::receive_results(int64_t until_ms) {
  ASSIGN_OR_RETURN(std::optional<RankResults> results, group_->receive(until_ms));
  clock_.spent(EnginePart::kWait);
  if (!results.has_value()) return absl::OkStatus();
  const int64_t step_ns = clock_.since_ns() - sent_ns_;
  report(*results);
  computing_ = nullptr;
  answered_ = true;
  core_.results(*std::move(results), step_ns);
  clock_.spent(EnginePart::kDecide);
  return absl::OkStatus();
}

absl::Status Engine::Loop::receive_logits(int64_t until_ms) {
  ASSIGN_OR_RETURN(const std::optional<std::vector<float>> logits,
                   group_->receive_logits(until_ms));
  clock_.spent(EnginePart::kWait);
  if (!logits.has_value()) return absl::OkStatus();
  fetching_ = false;
  core_.logits(*logits);
  return absl::OkStatus();
}

// Moves the traces out of `results`.
void Engine::Loop::report(std::vector<cluster::StepResult>& results) {
  StepReport report = {.step = computing_->step(),
                       .sequences = computing_->sequences_size(),
                       .rows = computing_->tokens_size(),
                       .sent_ns = sent_ns_,
                       .answered_ns = clock_.since_ns(),
                       .group = &group_->info()};
  for (cluster::StepResult& result : results) {
    report.ranks.push_back(result.times());
    if (computing_->trace()) report.traces.push_back(std::move(*result.mutable_trace()));
  }
  observer_->on_step(report);
}

void Engine::Loop::feed(Messages messages) {
  for (std::unique_ptr<Job>& job : messages.submitted) {
    observer_->on_submitted(job->stream.get(), job->request(), job->submitted_ns);
    if (job->needs_larger) observer_->on_set_aside(job->stream.get());
    core_.submit(std::move(job));
  }
  for (const std::shared_ptr<Stream>& stream : messages.cancelled) core_.cancel(stream.get());
  for (const std::shared_ptr<Stream>& stream : messages.displaced) {
    core_.reject_unstarted(stream.get(), displaced());
  }
  if (messages.drain_ms.has_value()) core_.drain(*messages.drain_ms);
}

// Ends the group; the next one is formed later. perform_all() carries out the resulting actions.
void Engine::Loop::leave(const absl::Status& why) {
  inbox_->lost();
  core_.group_lost(why);
  if (!inbox_->wait_stopping(milliseconds(0))) {
    const int64_t waiting = core_.stats().waiting;
    spdlog::warn("the group of workers was lost: {}; {} {} for the next one", message_of(why),
                 count_of(waiting, "choice"), waiting == 1 ? "waits" : "wait");
  }
  group_ = nullptr;
  computing_ = nullptr;
  fetching_ = false;
}

void Engine::Loop::publish() {
  EngineStats stats = core_.stats();
  stats.times_ns = clock_.times();
  inbox_->publish(stats);
  const Demand demand = core_.demand();
  if (demand != std::exchange(demand_, demand)) cluster_->note_demand(demand);
}

// ---- Actions ----

// The next step is sent to the workers before readers get the events of the previous one. If the
// group is lost, the actions from before the loss are carried out first: their streams are still
// open.
void Engine::Loop::perform_all() {
  std::vector<EngineAction> actions = take_actions();
  clock_.spent(begins_with_step(actions) ? EnginePart::kDecide : EnginePart::kEmit);
  publish();
  for (; !actions.empty(); actions = take_actions(), publish()) {
    for (EngineAction& action : actions) {
      std::visit([this](auto& one) { perform(one); }, action);
    }
    clock_.spent(EnginePart::kEmit);  // Metrics are updated before a reader sees the event.
    notifier_.notify();
    if (!lost_.ok()) leave(std::exchange(lost_, absl::OkStatus()));
  }
  clock_.spent(EnginePart::kEmit);
}

void Engine::Loop::perform(engine_action::RunStep& action) {
  clock_.spent(EnginePart::kDecide);
  sent_ns_ = clock_.since_ns();
  const absl::Status status = group_->send(action.step);
  clock_.spent(EnginePart::kSend);
  if (!status.ok()) {
    lost_ = status;
  } else {
    computing_ = std::move(action.step);
  }
}

void Engine::Loop::perform(engine_action::FetchLogits& action) {
  clock_.spent(EnginePart::kEmit);
  const absl::Status status = group_->ask_logits(action.step, action.output);
  clock_.spent(EnginePart::kSend);
  if (!status.ok()) {
    lost_ = status;
  } else {
    fetching_ = true;
  }
}

void Engine::Loop::perform(engine_action::NoteStarted& action) {
  inbox_->leave(action.stream.get());
  observer_->on_started(action.stream.get(), clock_.since_ns());
}

void Engine::Loop::perform(engine_action::AppendEvent& action) {
  observer_->on_event(action.stream.get(), action.event, clock_.since_ns());
  const absl::Status status = action.stream->append(std::move(action.event));
  notifier_.changed(action.stream);
  if (!status.ok()) core_.cut_off(action.stream.get(), status);
}

void Engine::Loop::perform(engine_action::CloseStream& action) {
  inbox_->leave(action.stream.get());
  observer_->on_closed(action.stream.get(), action.status, clock_.since_ns());
  action.stream->close(action.status);
  notifier_.changed(action.stream);
}

void Engine::Loop::perform(engine_action::LeaveGroup& action) { lost_ = action.why; }

// ---- Any thread ----

Engine::Engine(Cluster* cluster, const Tokenizer* tokenizer, const EngineOptions& options)
    : loop_(std::make_unique<Loop>(cluster, tokenizer, options)) {}

Engine::~Engine() = default;

absl::StatusOr<std::shared_ptr<Stream>> Engine::submit(EngineRequest request) {
  return loop_->inbox().submit(std::move(request));
}

absl::Status Engine::accepting() const { return loop_->inbox().accepting(); }

absl::Status Engine::accepting(const std::string& client) const {
  return loop_->inbox().accepting(client);
}

void Engine::cancel(const std::shared_ptr<Stream>& stream) { loop_->inbox().cancel(stream); }

EngineStats Engine::stats() const {
  EngineStats stats = loop_->inbox().stats();
  stats.ready = stats.ready && loop_->healthy();
  return stats;
}

absl::Status Engine::wait_ready() { return loop_->inbox().wait_ready(); }

void Engine::drain(milliseconds time) { loop_->inbox().drain(steady_now_ms() + time.count()); }

void Engine::stop() { loop_->stop(); }

absl::Status Engine::wait_end() { return loop_->inbox().wait_end(); }

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// The shell of EngineCore without its thread: every event is passed on at once, also while a step
// is running.
#include "tests/simulation/coordinator/engine_side.h"

#include <algorithm>
#include <utility>

#include "base/status.h"

namespace lockstep::simulation {
namespace {

constexpr int64_t kFirstPause = 100;  // The pause after a group that never answered: engine.cc.

}  // namespace

class EngineSide::Formed final : public Group {
 public:
  explicit Formed(GroupInfo info) : info_(std::move(info)) {}
  const GroupInfo& info() const override { return info_; }
  absl::Status send(std::shared_ptr<const cluster::Step>) override {
    return absl::UnimplementedError("a simulated group uses events");
  }
  absl::StatusOr<std::optional<RankResults>> receive(int64_t) override {
    return absl::UnimplementedError("a simulated group uses events");
  }
  absl::Status ask_logits(uint64_t, int) override {
    return absl::UnimplementedError("a simulated group uses events");
  }
  absl::StatusOr<std::optional<std::vector<float>>> receive_logits(int64_t) override {
    return absl::UnimplementedError("a simulated group uses events");
  }
  void abort() override {}

 private:
  const GroupInfo info_;
};

EngineSide::EngineSide(World* world, const EngineOptions& options)
    : world_(*world), inbox_(Inbox::create(options)), core_(nullptr, options) {}

void EngineSide::start(Workers* workers) {
  workers_ = workers;
  workers_->want_group({});
}

// ---- Clients ----

absl::StatusOr<std::shared_ptr<Stream>> EngineSide::submit(EngineRequest request) {
  absl::StatusOr<std::shared_ptr<Stream>> stream = inbox_->submit(std::move(request));
  // Requests that arrive at one moment are taken together.
  if (stream.ok()) world_.after(0, [this] { pump(); });
  return stream;
}

void EngineSide::cancel(const std::shared_ptr<Stream>& stream) {
  inbox_->cancel(stream);
  world_.after(0, [this] { pump(); });
}

void EngineSide::drain(int64_t time_ms) {
  world_.log("engine: draining for {} ms", time_ms);
  draining_ = true;
  inbox_->drain(world_.now() + time_ms);
  pump();
}

bool EngineSide::ready() const { return inbox_->stats().ready && workers_->healthy(); }

// ---- Workers ----

void EngineSide::group_formed(const GroupInfo& info) {
  world_.log("engine: group {} of {} ranks is formed", info.epoch, info.ranks);
  ++groups_;
  if (core_.has_group()) world_.broken("a group was formed while there was one");
  answering_ = answered_ = false;
  const bool same_weights = std::exchange(weights_, info.weights).same_as(info.weights);
  const bool same_class = std::exchange(class_, info.numeric_class) == info.numeric_class;
  if (!same_weights || !same_class) ++changed_;
  inbox_->open(std::make_shared<Formed>(info));
  core_.group_formed(info);
  pump_if_due();
}

void EngineSide::group_lost(const absl::Status& why) {
  world_.log("engine: the group is lost: {}", message_of(why));
  ++groups_lost_;
  groups_failed_ += workers_->only_left() ? 0 : 1;
  answering_ = false;
  inbox_->lost();
  core_.group_lost(why);
  pump();
  form_again();
}

void EngineSide::form_again() {
  world_.after(answered_ ? 0 : kFirstPause, [this] {
    if (core_.wants_group()) workers_->want_group(core_.requirements());
  });
}

void EngineSide::results(std::vector<cluster::StepResult> results) {
  if (!std::exchange(answering_, false)) world_.broken("results without a step");
  answered_ = true;
  core_.results(std::move(results), (world_.now() - sent_at_) * 1'000'000);
  pump_if_due();
}

void EngineSide::logits(const std::vector<float>& logits) {
  if (!std::exchange(answering_, false)) world_.broken("logits without a request");
  core_.logits(logits);
  pump_if_due();
}

// ---- The core ----

void EngineSide::feed() {
  Messages messages = inbox_->take(0);
  for (std::unique_ptr<Job>& job : messages.submitted) core_.submit(std::move(job));
  for (const std::shared_ptr<Stream>& stream : messages.cancelled) core_.cancel(stream.get());
  for (const std::shared_ptr<Stream>& stream : messages.displaced) {
    core_.reject_unstarted(stream.get(), displaced());
  }
  if (messages.drain_ms.has_value()) core_.drain(*messages.drain_ms);
}

void EngineSide::publish() {
  inbox_->publish(core_.stats());
  const Demand demand = core_.demand();
  if (demand != std::exchange(demand_, demand)) workers_->note_demand(demand);
}

void EngineSide::pump() {
  if (std::exchange(pumping_, true)) return;  // An action called pump(): the outer call goes on.
  do {
    feed();
    core_.tick(world_.now());
    // A client asks for traces during a quarter of the time.
    std::vector<EngineAction> actions = core_.take_actions(/*trace=*/world_.now() % 400 < 100);
    publish();
    for (EngineAction& action : actions) {
      std::visit([this](auto& one) { perform(one); }, action);
    }
  } while (core_.wake_at() == 0);
  pumping_ = false;
  check();
  wake_later();
}

// Pumps only if the core's wake-up time has come: the engine's thread sleeps until then, or until
// the next message.
void EngineSide::pump_if_due() {
  const std::optional<int64_t> wake = core_.wake_at();
  if (wake.has_value() && *wake <= world_.now()) return pump();
  check();
  wake_later();
}

void EngineSide::perform(engine_action::RunStep& action) {
  if (std::exchange(answering_, true)) world_.broken("two steps at once");
  world_.log("engine: step {} of {} rows, {} outputs", action.step->step(),
             action.step->tokens_size(), action.step->outputs_size());
  sent_at_ = world_.now();
  if (world_.planted(Plant::kPageFreedEarly)) share_page(action.step);
  if (world_.planted(Plant::kOutgrownKept)) keep_outgrown(action.step);
  workers_->run_step(action.step);
}

// Acts as if a sequence that outgrows its rotary frequencies kept its pages.
void EngineSide::keep_outgrown(std::shared_ptr<const cluster::Step>& step) {
  auto changed = std::make_shared<cluster::Step>(*step);
  for (cluster::StepSequence& sequence : *changed->mutable_sequences()) {
    if (sequence.rope_length() == 0) continue;
    sequence.set_rope_length(sequence.first_position() + sequence.rows());
  }
  step = changed;
}

// Acts as if the last page of the step's first sequence had been free for its last sequence.
void EngineSide::share_page(std::shared_ptr<const cluster::Step>& step) {
  auto shared = std::make_shared<cluster::Step>(*step);
  for (const cluster::StepSequence& sequence : shared->sequences()) {
    if (sequence.pages_size() > 0) last_page_[sequence.slot()] = sequence.pages().rbegin()[0];
  }
  if (shared->sequences_size() < 2) return;
  const int32_t used = last_page_[shared->sequences(0).slot()];
  cluster::StepSequence& other = *shared->mutable_sequences()->rbegin();
  if (other.pages_size() == 0) return;
  other.set_pages(0, used);
  step = std::move(shared);
}

void EngineSide::perform(engine_action::FetchLogits& action) {
  if (std::exchange(answering_, true)) world_.broken("logits are fetched while a step is running");
  ++fetches_;
  workers_->fetch_logits(action.step, action.output);
}

void EngineSide::perform(engine_action::NoteStarted& action) { inbox_->leave(action.stream.get()); }

void EngineSide::perform(engine_action::AppendEvent& action) {
  if (world_.planted(Plant::kEventLost) && world_.one_in(20)) return;
  if (world_.planted(Plant::kEventTwice) && world_.one_in(20)) {
    action.stream->append(action.event).IgnoreError();
  }
  const absl::Status status = action.stream->append(std::move(action.event));
  if (!status.ok()) core_.cut_off(action.stream.get(), status);
}

void EngineSide::perform(engine_action::CloseStream& action) {
  inbox_->leave(action.stream.get());
  action.stream->close(action.status);
}

void EngineSide::perform(engine_action::LeaveGroup& action) {
  world_.log("engine: leaves the group: {}", message_of(action.why));
  ++groups_lost_;
  ++groups_failed_;
  answering_ = false;
  inbox_->lost();
  workers_->leave_group();
  form_again();
}

void EngineSide::wake_later() {
  const std::optional<int64_t> wake = core_.wake_at();
  if (!wake.has_value() || (woken_for_ >= world_.now() && woken_for_ <= *wake)) return;
  woken_for_ = std::max(*wake, world_.now() + 1);
  world_.after(woken_for_ - world_.now(), [this, time = woken_for_] {
    if (woken_for_ == time) woken_for_ = -1;
    pump();
  });
}

// Checks the conditions that hold whenever no action is due at once.
void EngineSide::check() const {
  const EngineStats stats = core_.stats();
  const bool work = stats.running + stats.waiting > 0;
  if (core_.has_group() && work && !answering_) {
    world_.broken("a lost wake-up: {} choices run and {} wait, but the workers are idle",
                  stats.running, stats.waiting);
  }
  if (core_.has_group() && !work && stats.pages_free != stats.group.pages) {
    world_.broken("only {} of {} KV pages are free, but nothing runs", stats.pages_free,
                  stats.group.pages);
  }
  if (inbox_->stats().ready && (draining_ || !core_.has_group())) {
    world_.broken("ready while {}", draining_ ? "draining" : "there is no group");
  }
}

}  // namespace lockstep::simulation

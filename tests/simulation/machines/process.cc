// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/machines/process.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/status.h"

namespace lockstep::simulation {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
// Same as in worker/main.cc.
constexpr int64_t kMinPause = 100;
constexpr int64_t kMaxPause = 500;
constexpr int64_t kServed = 2'000;
// The time that the effects of a fault last: silence, queues that drain, an epoch that ends.
constexpr int64_t kAftermathMs = 3'000;

}  // namespace

Process::Process(Host* host, Port* port, ProcessOptions options,
                 std::function<void(Process&, const ProcessEnd&)> on_exit)
    : host_(*host),
      port_(*port),
      options_(std::move(options)),
      on_exit_(std::move(on_exit)),
      time_(&host->world),
      work_(host, this, &time_),
      pause_ms_(kMinPause) {}

void Process::start() {
  host_.on_phase(*this, Phase::kJoining);
  time_.after(options_.startup_ms, [this] { dial(); });
}

void Process::dial() {
  connected_at_ = host_.world.now();
  Link* const link = link_ = port_.open(this);
  // Late messages for a session that is over are dropped.
  link->down.on_message = [this, link](const ToWorker& message) {
    if (link != link_) return;
    cluster::CoordinatorMessage taken = *message;
    if (taken.has_assignment()) {
      last_epoch_ = std::max(last_epoch_, taken.epoch());
    } else if (host_.world.planted(Plant::kWorkerEpochUnchecked)) {
      taken.set_epoch(last_epoch_);
    }
    on([&](SessionCore& core) { core.message(host_.world.now(), std::move(taken)); });
  };
  link->down.on_closed = [this, link] {
    if (link == link_) on([](SessionCore& core) { core.closed(); });
  };
  core_.emplace(options_.hello, &in_memory_);
  last_epoch_ = 0;
  beat_at_ = kNever;
  on([this](SessionCore& core) { core.connected(host_.world.now()); });
}

template <typename Event>
void Process::on(const Event& event) {
  if (!core_.has_value()) return;
  event(*core_);
  for (SessionAction& action : core_->take_actions()) take(std::move(action));
  if (over_.has_value()) return end_session();
  beat_later();
}

void Process::take(SessionAction action) {
  using namespace session_action;
  if (auto* send = std::get_if<Send>(&action)) {
    if (send->message.has_failure()) {
      host_.world.log("pid {}: epoch {} ended: {}", pid(), send->message.epoch(),
                      send->message.failure().message());
    }
    link_->up.send(std::move(send->message));
  } else if (auto* run = std::get_if<Run>(&action)) {
    if (host_.world.planted(Plant::kWeightsUnchecked)) run->work.keep |= work_.has_weights();
    work_.run(std::move(run->work), [this](WorkResult result) {
      on([&](SessionCore& core) { core.work_done(host_.world.now(), std::move(result)); });
    });
  } else if (std::holds_alternative<AbortRunning>(action)) {
    work_.abort();
  } else if (std::holds_alternative<FinishSending>(action)) {
    link_->up.close();
  } else {
    over_ = std::get<End>(action).status;
  }
}

void Process::beat_later() {
  if (core_->next_tick() >= beat_at_) return;
  beat_at_ = core_->next_tick();
  const int64_t late = host_.world.one_in(20) ? host_.world.between(0, 50) : 0;
  const int64_t delay = std::max<int64_t>(beat_at_ - host_.world.now(), 0) + late;
  time_.after(delay, [this, number = ++beats_] {
    if (number != beats_) return;
    beat_at_ = kNever;
    work_.check_time();
    on([this](SessionCore& core) { core.tick(host_.world.now(), work_.heartbeat_stats()); });
  });
}

void Process::end_session() {
  if (work_.busy()) host_.world.broken("pid {}: a session ended while work was running", pid());
  const absl::Status status = *std::exchange(over_, std::nullopt);
  host_.world.log("pid {}: its session is over: {}", pid(),
                  status.ok() ? "OK" : message_of(status));
  ++beats_;
  core_.reset();
  std::exchange(link_, nullptr)->up.cut();
  if (!status.ok()) return end({.how = "exit code 2"});
  if (options_.launched || leaves_) return end({.how = "exit code 0", .from_outside = true});
  if (host_.world.now() - connected_at_ > kServed) pause_ms_ = kMinPause;
  time_.after(pause_ms_, [this] { dial(); });
  pause_ms_ = std::min(2 * pause_ms_, kMaxPause);
}

void Process::end(const ProcessEnd& end) {
  if (time_.ended()) return;
  host_.world.log("pid {}: {}", pid(), end.how);
  if (halted_at_ < 0) halted_at_ = host_.world.now();
  time_.end();
  work_.end();
  if (link_ != nullptr) {
    if (host_.world.one_in(2)) {
      link_->up.close();
    } else {
      link_->up.cut();
    }
  }
  on_exit_(*this, end);
}

void Process::stop() {
  if (halted_at_ < 0) halted_at_ = host_.world.now();
  time_.stop();
}

void Process::resume() {
  host_.world.log("pid {}: continued", pid());
  halted_at_ = -1;
  time_.resume();
}

void Process::die() {
  host_.world.log("pid {} crashes at a deadly token", pid());
  ++host_.faults;
  excuse(kForever);
  end({.how = "killed by signal 11"});
}

void Process::leave() {
  leaves_ = true;
  time_.at_once([this] {
    if (!core_.has_value()) return end({.how = "exit code 0", .from_outside = true});
    on([this](SessionCore& core) { core.stop(host_.world.now()); });
  });
}

void Process::excuse(int64_t for_ms) {
  excused_until_ = std::max(excused_until_, host_.world.now() + for_ms + kAftermathMs);
}

void Process::calm() {
  if (link_ != nullptr) link_->calm();
  if (stopped() || work_.stuck()) return;
  excused_until_ = std::min(excused_until_, host_.world.now() + kAftermathMs);
}

void Process::noticed_late(int64_t since) {
  if (excused_until_ >= since) excuse(0);
}

bool Process::excused() const {
  return !alive() || leaves_ || options_.unfit || host_.world.now() < excused_until_;
}

}  // namespace lockstep::simulation

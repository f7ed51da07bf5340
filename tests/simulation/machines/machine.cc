// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/machines/machine.h"

#include <algorithm>
#include <utility>

#include "proto/handshake.h"

namespace lockstep::simulation {

cluster::Hello Machine::hello() {
  cluster::Hello hello;
  hello.set_protocol(kProtocolVersion);
  hello.set_device("cpu");
  hello.set_numeric_class("f32.v1");
  hello.set_isa("portable");
  hello.set_host("here");
  hello.set_data_address("here:1");
  hello.set_threads(1);
  hello.set_preferred_rank(-1);
  return hello;
}

cluster::Hello Machine::spare() {
  cluster::Hello spare = hello();
  spare.set_spare(true);
  return spare;
}

int64_t Machine::draw_startup() {
  World& world = host_.world;
  if (host_.calm || !world.one_in(25)) return world.between(5, 120);
  return world.between(200, host_.stuck_ms / 2);
}

Process& Machine::create(ProcessOptions options) {
  options.startup_ms = draw_startup();
  options.hello.set_pid(++last_pid_);
  // Measurements vary a little.
  const int64_t rate = options.hello.host() == "here" ? kReadRate : host_.other_read_rate;
  if (!options.launched) {
    options.hello.set_read_rate(static_cast<double>(rate * host_.world.between(90, 110)));
  }
  processes_.push_back(std::make_unique<Process>(
      &host_, &port_, std::move(options),
      [this](Process& process, const ProcessEnd& end) { on_exit(process, end); }));
  processes_.back()->start();
  return *processes_.back();
}

void Machine::report(int64_t delay, std::function<void()> what) {
  last_report_ = std::max(last_report_, host_.world.now() + delay);
  coordinator_.after(last_report_ - host_.world.now(),
                     [this, number = coordinators_, what = std::move(what)] {
                       if (number == coordinators_) what();
                     });
}

// ---- Workers that the coordinator launches ----

void Machine::start(int index) {
  coordinator_.after(host_.world.between(0, 20), [this, index, number = coordinators_] {
    if (number != coordinators_) return;
    if (std::exchange(refuses_start_, false)) {
      return report(0,
                    [this, index] { listener_.on_exited(index, {.how = "could not be started"}); });
    }
    cluster::Hello rank = hello();
    rank.set_preferred_rank(index);
    Process& process = create({.hello = std::move(rank), .launched = true});
    host_.world.log("machine: worker {} is pid {}", index, process.pid());
    launched_.resize(std::max(launched_.size(), static_cast<size_t>(index) + 1));
    launched_[index] = &process;
    const int64_t late = host_.world.one_in(10) ? host_.world.between(0, 200) : 0;
    report(late, [this, index, pid = process.pid()] { listener_.on_started(index, pid); });
  });
}

void Machine::kill(int index) {
  if (host_.world.planted(Plant::kWrongKill)) index = (index + 1) % host_.model.ranks;
  coordinator_.after(host_.world.between(0, 20), [this, process = launched_.at(index)] {
    if (!process->alive()) return;
    if (!process->excused()) {
      host_.world.broken("pid {} is killed without a fault", process->pid());
    }
    process->kill();
  });
}

void Machine::coordinator_ended() {
  for (Process* process : launched_) {
    if (process != nullptr) process->kill();
  }
  ++coordinators_;
}

void Machine::on_exit(Process& process, const ProcessEnd& end) {
  if (process.options().launched) {
    const int index = process.options().hello.preferred_rank();
    report(host_.world.between(0, 25), [this, index, end] { listener_.on_exited(index, end); });
  } else if (!process.options().uninvited && !process.options().unfit) {
    const int64_t away = host_.world.between(200, host_.world.one_in(4) ? 4'000 : 1'500);
    host_.world.after(away, [this, hello = process.options().hello] {
      start_by_hand(hello, /*uninvited=*/false, /*unfit=*/false);
    });
  }
}

// ---- Workers that are started by hand ----

Process& Machine::start_by_hand(cluster::Hello hello, bool uninvited, bool unfit) {
  Process& process = create({.hello = std::move(hello), .uninvited = uninvited, .unfit = unfit});
  host_.world.log("machine: {} pid {} is started",
                  unfit       ? "unfit"
                  : uninvited ? "guest"
                              : "worker",
                  process.pid());
  return process;
}

std::vector<Process*> Machine::alive() const {
  std::vector<Process*> alive;
  for (const auto& process : processes_) {
    if (process->alive()) alive.push_back(process.get());
  }
  return alive;
}

void Machine::calm() {
  refuses_start_ = false;
  for (Process* process : alive()) {
    process->work().calm();
    const ProcessOptions& options = process->options();
    const bool hangs = !options.launched && process->work().stuck();
    if (options.uninvited || options.unfit || hangs) {
      process->kill();
    } else if (!options.launched && process->stopped()) {
      process->resume();
    }
  }
}

}  // namespace lockstep::simulation

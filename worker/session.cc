// SPDX-License-Identifier: Apache-2.0
// The core decides under mutex_, which is held for moments only; work and writing go on without it.
#include "worker/session.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/status.h"
#include "proto/handshake.h"
#include "worker/assignment.h"
#include "worker/memory.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

std::string link_target(const char* path) {
  char target[64] = {};
  const ssize_t length = readlink(path, target, sizeof(target) - 1);
  return std::string(target, length > 0 ? static_cast<size_t>(length) : 0);
}

// Ranks with the same name can meet in shared memory: one kernel, one namespace of sockets, one
// user, and nobody said that they are on different hosts.
std::string host_name(const std::string& said) {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return fmt::format("{}{}{}/{}/{}/{}", said, said.empty() ? "" : "/", boot,
                     link_target("/proc/self/ns/net"), link_target("/proc/self/ns/user"), getuid());
}

}  // namespace

cluster::Hello hello_of(const WorkerProcessOptions& options, const Backend& backend) {
  cluster::Hello hello;
  hello.set_protocol(kProtocolVersion);
  const Device& device = *backend.device;
  hello.set_device(device.is_host() ? "cpu" : "cuda " + device.address());
  hello.set_numeric_class(backend.numeric_class);
  hello.set_isa(isa_name(best_isa()));
  hello.set_host(host_name(options.host_name));
  hello.set_speed(options.speed);
  hello.set_read_rate(options.read_rate);
  if (options.data_port != nullptr) {
    hello.set_data_address(options.data_port->address());
    hello.set_data_tls(options.data_port->speaks_tls());
  }
  hello.set_memory_bytes(free_bytes_of(device));
  hello.set_threads(options.threads);
  hello.set_pid(getpid());
  hello.set_preferred_rank(options.preferred_rank);
  hello.set_spare(options.spare);
  return hello;
}

Session::Session(const WorkerProcessOptions& options, const Backend& backend, KeptWorker* kept,
                 Link& link)
    : options_(options),
      backend_(backend),
      kept_(kept),
      link_(link),
      progress_(kept->progress),
      core_(hello_of(options, backend), &kept->weights) {}

absl::Status Session::run() {
  on([](SessionCore& core) { core.connected(steady_now_ms()); });
  std::thread reader([this] { read_all(); });
  std::thread heart([this] { send_heartbeats(); });
  {
    const std::stop_callback on_stop(options_.stop, [this] { stop(); });
    while (const std::optional<Work> work = next_work()) {
      WorkResult result = perform(*work);
      on([&result](SessionCore& core) { core.work_done(steady_now_ms(), std::move(result)); });
      write_out();
    }
  }
  if (!is_closed()) link_.cancel();  // Where it is, its status says why.
  heart.join();
  reader.join();
  const absl::Status refused = link_.finish();
  const MutexLock lock(&mutex_);
  return end_->ok() ? refused : *end_;
}

bool Session::is_closed() {
  const MutexLock lock(&mutex_);
  return closed_;
}

// --- Events and actions.

template <typename Event>
bool Session::on(const Event& event) {
  const MutexLock lock(&mutex_);
  event(core_);
  for (SessionAction& action : core_.take_actions()) take(std::move(action));
  return !outbox_.empty();
}

void Session::take(SessionAction action) {
  using namespace session_action;
  if (auto* send = std::get_if<Send>(&action)) {
    if (send->message.has_failure()) {
      spdlog::info("epoch {} ended: {}", send->message.epoch(), send->message.failure().message());
    }
    outbox_.push_back(std::move(send->message));
  } else if (auto* run = std::get_if<Run>(&action)) {
    cancelled_ = false;
    work_ = std::move(run->work);
    work_changed_.notify_all();
  } else if (std::holds_alternative<AbortRunning>(action)) {
    cancelled_ = true;
    if (running_ != nullptr) running_->abort();
  } else if (std::holds_alternative<FinishSending>(action)) {
    outbox_.push_back(std::nullopt);
  } else {
    end_ = std::get<End>(action).status;
    work_changed_.notify_all();
    beat_changed_.notify_all();
  }
}

// The thread of heartbeats says goodbye. A coordinator that reads nothing holds it up, and whoever
// else writes.
void Session::stop() {
  on([](SessionCore& core) { core.stop(steady_now_ms()); });
  beat_changed_.notify_all();
  const auto limit = steady_clock::now() + milliseconds(kGoodbyeMs);
  {
    const MutexLock lock(&mutex_);
    while (!end_.has_value() && beat_changed_.wait_until(&mutex_, limit)) {
    }
  }
  link_.cancel();
}

// --- The stream.

void Session::read_all() {
  cluster::CoordinatorMessage message;
  while (link_.read(&message)) {
    const bool answers =
        on([&](SessionCore& core) { core.message(steady_now_ms(), std::move(message)); });
    if (answers) beat_changed_.notify_all();  // Another thread writes: this one goes on reading.
    message.Clear();
  }
  {
    const MutexLock lock(&mutex_);
    closed_ = true;
  }
  on([](SessionCore& core) { core.closed(); });
}

void Session::send_heartbeats() {
  while (true) {
    {
      const MutexLock lock(&mutex_);
      while (!end_.has_value() && outbox_.empty() && steady_now_ms() < core_.next_tick()) {
        const milliseconds pause(
            std::min<int64_t>(core_.next_tick() - steady_now_ms(), kHeartbeatMs));
        beat_changed_.wait_until(&mutex_, steady_clock::now() + pause);
      }
      if (end_.has_value()) return;
    }
    on([this](SessionCore& core) { core.tick(steady_now_ms(), vitals()); });
    write_out();
  }
}

// What others have put there meanwhile goes out as well.
void Session::write_out() {
  const MutexLock write(&write_mutex_);
  while (true) {
    std::optional<cluster::WorkerMessage> message;
    {
      const MutexLock lock(&mutex_);
      if (outbox_.empty()) return;
      message = std::move(outbox_.front());
      outbox_.pop_front();
    }
    if (message.has_value()) {
      link_.write(*message);  // A broken stream ends the reading as well.
    } else {
      link_.finish_writing();
    }
  }
}

Vitals Session::vitals() const {
  const auto get = [](const auto& counter) { return counter.load(std::memory_order_relaxed); };
  return {.load_progress = get(progress_.load),
          .instructions = get(progress_.instructions),
          .waiting = get(progress_.waiting),
          .bytes_loaded = get(progress_.bytes_loaded),
          .bytes_to_load = get(progress_.bytes_to_load)};
}

// --- Work, on the caller's thread.

std::optional<Work> Session::next_work() {
  const MutexLock lock(&mutex_);
  while (!work_.has_value() && !end_.has_value()) work_changed_.wait(&mutex_);
  return std::exchange(work_, std::nullopt);
}

WorkResult Session::perform(const Work& work) {
  absl::StatusOr<WorkResult> result = try_perform(work);
  if (result.ok()) return *std::move(result);
  WorkResult failed{.status = result.status()};
  // A device's fault stays with its process: the next one finds it well again.
  if (const char* fault = backend_.device->synchronize(); fault != nullptr) {
    failed.device = device_status(fault, *backend_.device);
  }
  return failed;
}

absl::StatusOr<WorkResult> Session::try_perform(const Work& work) {
  WorkResult result;
  switch (work.kind) {
    case Work::kCheck: {
      progress_.load = 0;
      progress_.bytes_loaded = 0;
      RETURN_IF_ERROR(check_assignment(*work.assignment));
      ASSIGN_OR_RETURN(const WeightSource source, open_source(*work.assignment, &progress_));
      ASSIGN_OR_RETURN(result.stamp, source_stamp(source));
      return result;
    }
    case Work::kLoad:
      return load(work);
    case Work::kPreload:
      return preload(work);
    case Work::kStart:
      RETURN_IF_ERROR(kept_->worker->start(work.message.start().pages()));
      return result;
    case Work::kStep: {
      ASSIGN_OR_RETURN(*result.reply.mutable_result(), kept_->worker->step(work.message.step()));
      return result;
    }
    case Work::kLogits: {
      ASSIGN_OR_RETURN(*result.reply.mutable_logits(),
                       kept_->worker->logits(work.message.logits()));
      return result;
    }
  }
  return absl::InternalError("no such work");
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// The core decides under mutex_, which is held only for moments; work and writing run without it.
#include "worker/session/session.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>
#include <utility>

#include "base/numbers/quantization.h"
#include "base/status.h"
#include "base/system/clock.h"
#include "base/system/cpu.h"
#include "base/threads/thread_priority.h"
#include "proto/handshake.h"
#include "worker/assignment.h"
#include "worker/collectives/devices/choice.h"
#include "worker/collectives/hosts/routes.h"
#include "worker/data/data_meeting.h"
#include "worker/host/memory.h"
#include "worker/kernel_choice/proven_kernels.h"

namespace lockstep {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

std::string link_target(const char* path) {
  char target[64] = {};
  const ssize_t length = readlink(path, target, sizeof(target) - 1);
  return std::string(target, length > 0 ? static_cast<size_t>(length) : 0);
}

// Ranks with the same name can meet in shared memory: their kernel, network namespace, user
// namespace, user id and --host-name are the same.
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

Session::Session(const WorkerProcessOptions& options, const Backend& backend,
                 PersistentWorker* persistent, Link& link)
    : options_(options),
      backend_(backend),
      persistent_(persistent),
      link_(link),
      progress_(persistent->progress),
      core_(hello_of(options, backend), &persistent->weights) {}

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
  if (!is_closed()) link_.cancel();  // If the stream is closed, its status says why.
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
  if (core_.ready() != ready_) {
    ready_ = core_.ready();
    if (options_.on_ready != nullptr) options_.on_ready(ready_);
  }
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

// The heartbeat thread sends the goodbye. A coordinator that reads nothing blocks that thread and
// every other writer, so the wait has a limit.
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
    if (answers) beat_changed_.notify_all();  // Another thread writes: this one continues reading.
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
    on([this](SessionCore& core) { core.tick(steady_now_ms(), heartbeat_stats()); });
    write_out();
  }
}

// Sends all messages in outbox_, and those that other threads add meanwhile.
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
      link_.write(*message);  // A broken stream ends the reading, too.
    } else {
      link_.finish_writing();
    }
  }
}

HeartbeatStats Session::heartbeat_stats() const {
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
  // A fault of a device lasts until this process ends: the next process can use the device again.
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
      RETURN_IF_ERROR(persistent_->worker->start(work.message.start().pages()));
      return result;
    case Work::kStep: {
      ASSIGN_OR_RETURN(*result.reply.mutable_result(),
                       persistent_->worker->step(work.message.step()));
      return result;
    }
    case Work::kLogits: {
      ASSIGN_OR_RETURN(*result.reply.mutable_logits(),
                       persistent_->worker->logits(work.message.logits()));
      return result;
    }
  }
  return absl::InternalError("unknown kind of work");
}

// ---- Loading ----

namespace {

// Checks that the values which ranks share fit into memory: the meeting of the ranks allocates
// them, before any weight is loaded.
absl::Status check_shared_bytes(const program::Program& program, int64_t memory_free) {
  const int64_t bytes = program.shared_bytes();
  if (memory_free <= 0 || bytes <= memory_free) return absl::OkStatus();
  return resource_exhausted(
      "values that ranks share need {}, {} are free: use a smaller --prefill-chunk, or a machine "
      "with more memory",
      memory_text(bytes), memory_text(memory_free));
}

// True if there is memory for the old and the new weights of all ranks on this device at the same
// time. Ranks on a GPU never keep the old weights while they load.
bool has_room_beside(const cluster::Assignment& assignment, const Backend& backend) {
  if (!backend.device->is_host()) return false;
  int64_t bytes = 0;
  for (const program::Weight& weight : assignment.program().weights()) {
    bytes += matrix_bytes(dtype_of(weight.dtype()), weight.rows(), weight.cols());
  }
  const int64_t memory_free = free_bytes_of(*backend.device);
  // Twice the bytes are required, for two reasons. Buffers need memory, too. And peers that have
  // loaded count the memory left for KV pages while this rank still has the old and the new
  // weights.
  return memory_free <= 0 || 2 * bytes <= memory_free / ranks_here(assignment);
}

// Runs `function` on a new thread of low priority, so that it does not slow ranks of this host. The
// priority of the calling thread does not change.
template <typename Function>
void at_low_priority(const Function& function) {
  std::thread([&] {
    lower_thread_priority();
    function();
  }).join();
}

}  // namespace

// Frees what the next epoch does not need. Called before the ranks of that epoch meet, since each
// rank then counts the free memory.
void Session::leave_last_epoch(const Work& work) {
  {
    const MutexLock lock(&mutex_);
    running_ = nullptr;
  }
  const bool holds = work.keep || (work.reuse && has_room_beside(*work.assignment, backend_));
  if (!holds) persistent_->retained.reset();
  if (persistent_->worker == nullptr) return;
  if (work.keep) return persistent_->worker->drop_pages();
  if (holds) persistent_->retained = persistent_->worker->release();
  persistent_->worker.reset();
}

absl::StatusOr<WorkResult> Session::load(const Work& work) {
  leave_last_epoch(work);
  // Counted before the meeting, since no rank loads before all have met. A later count would lack
  // the memory that peers have taken by then.
  const int64_t memory_free = free_bytes_of(*backend_.device);
  RETURN_IF_ERROR(check_shared_bytes(work.assignment->program(), memory_free));
  ASSIGN_OR_RETURN(std::unique_ptr<Collective> met, meet(work));
  RETURN_IF_ERROR(load_worker(work, std::move(met), memory_free));
  WorkResult result{.stamp = persistent_->worker->source().stamp,
                    .bytes_loaded = progress_.bytes_loaded.load()};
  result.reply.mutable_ready()->set_pages(persistent_->worker->pages_possible());
  result.reply.mutable_ready()->set_sequences(persistent_->worker->sequences_possible());
  result.reply.mutable_ready()->set_weight_bytes(persistent_->worker->weight_bytes());
  const std::vector<std::string>& kernels = persistent_->worker->kernels();
  *result.reply.mutable_ready()->mutable_kernels() = {kernels.begin(), kernels.end()};
  result.reply.mutable_ready()->set_contents(persistent_->worker->source().contents);
  result.reply.mutable_ready()->set_written_at(persistent_->worker->source().written_at);
  return result;
}

absl::StatusOr<std::unique_ptr<Collective>> Session::meet(const Work& work) {
  const WaitingMark waiting(progress_);
  const cluster::Assignment& assignment = *work.assignment;
  const program::Program& program = assignment.program();
  MeetArgs meeting;
  meeting.rank = program.rank();
  meeting.ranks = program.ranks();
  meeting.epoch = work.epoch;
  if (backend_.device->is_host()) meeting.shared_bytes = program.shared_bytes();
  meeting.group = assignment.group();
  meeting.secret = meeting_secret(options_.token, assignment.group());
  meeting.collective_timeout = milliseconds(assignment.collective_timeout_ms());
  meeting.cancelled = &cancelled_;
  ASSIGN_OR_RETURN(std::unique_ptr<Collective> met, spans_hosts(assignment)
                                                        ? meet_over_hosts(work, meeting)
                                                        : meet_in_shared_memory(meeting));
  CollectiveChoice choice;
  auto collective = device_collective(std::move(met), *backend_.device,
                                      {.timeout = meeting.collective_timeout,
                                       .cancelled = &cancelled_,
                                       .host = hosts_of(assignment)[meeting.rank],
                                       .pads = backend_.graphs},
                                      &choice);
  if (program.rank() == 0 && !choice.text.empty()) {
    spdlog::log(choice.fell_back ? spdlog::level::warn : spdlog::level::info, "collectives {}",
                choice.text);
  }
  return collective;
}

// First the ranks of this host meet. Then each connects to the ranks of other hosts that it
// exchanges data with.
absl::StatusOr<std::unique_ptr<Collective>> Session::meet_over_hosts(const Work& work,
                                                                     MeetArgs meeting) {
  const cluster::Assignment& assignment = *work.assignment;
  if (options_.data_port == nullptr) {
    return failed_precondition(
        "rank {} has no data port for ranks on other hosts: start it with --data-listen "
        "ADDRESS:PORT and --cluster-cert or --insecure cluster",
        meeting.rank);
  }
  const std::vector<int> hosts = hosts_of(assignment);
  meeting.here = ranks_of_host(hosts, hosts[meeting.rank]);
  const auto place = std::ranges::find(meeting.here, meeting.rank) - meeting.here.begin();
  ASSIGN_OR_RETURN(std::shared_ptr<Region> region, meet_on_host(meeting));
  DataMeetArgs data;
  data.epoch = {.epoch = work.epoch,
                .key = assignment.data_key(),
                .rank = meeting.rank,
                .ranks = meeting.ranks};
  data.hosts = hosts;
  data.addresses = {assignment.data_addresses().begin(), assignment.data_addresses().end()};
  data.port = options_.data_port;
  data.cancelled = &cancelled_;
  ASSIGN_OR_RETURN(std::vector<DataLink> links, meet_other_hosts(data));
  if (place == 0) {
    spdlog::info("epoch {}: rank {} of {} is connected to {} ranks of other hosts", work.epoch,
                 meeting.rank, meeting.ranks, links.size());
  }
  return std::make_unique<SharedMemoryCollective>(std::move(region), static_cast<int>(place),
                                                  meeting.collective_timeout, hosts,
                                                  std::make_unique<TcpLinks>(std::move(links)));
}

WorkerOptions Session::worker_options(int64_t memory_free) {
  return {.threads = options_.threads,
          .processors = options_.processor_ids(),
          .progress = &progress_,
          .cancelled = &cancelled_,
          .backend = &backend_,
          .weight_cache = packed_cache_options(options_.weight_cache, options_.weight_cache_limit),
          .memory_free_bytes = memory_free,
          .retained = &persistent_->retained};
}

absl::Status Session::load_worker(const Work& work, std::unique_ptr<Collective> met,
                                  int64_t memory_free) {
  const std::vector<std::string> wanted(work.assignment->kernels().begin(),
                                        work.assignment->kernels().end());
  if (persistent_->worker != nullptr && !computes_as(persistent_->worker->kernels(), wanted)) {
    persistent_->worker.reset();  // The group agreed on kernels that lay out weights differently.
  }
  if (work.keep && persistent_->worker != nullptr) {
    RETURN_IF_ERROR(persistent_->worker->rejoin(*work.assignment, std::move(met)));
  } else {
    ASSIGN_OR_RETURN(persistent_->worker,
                     Worker::load(*work.assignment, std::move(met), worker_options(memory_free)));
  }
  const MutexLock lock(&mutex_);
  running_ = persistent_->worker.get();
  if (cancelled_) running_->abort();
  return absl::OkStatus();
}

// If this worker was a rank with the same program, it keeps its weights and only drops its KV
// pages.
absl::StatusOr<WorkResult> Session::preload(const Work& work) {
  leave_last_epoch(work);
  if (persistent_->worker == nullptr) {
    absl::Status status;
    at_low_priority([&] {
      auto retained =
          Worker::preload(*work.assignment, worker_options(free_bytes_of(*backend_.device)));
      status = retained.status();
      if (status.ok()) persistent_->retained = *std::move(retained);
    });
    RETURN_IF_ERROR(status);
  }
  WorkResult result;
  const bool rank = persistent_->worker != nullptr;
  result.stamp = rank ? persistent_->worker->source().stamp : persistent_->retained->stamp;
  result.reply.mutable_preloaded()->set_weight_bytes(rank ? persistent_->worker->weight_bytes()
                                                          : persistent_->retained->weights.bytes());
  return result;
}

}  // namespace lockstep

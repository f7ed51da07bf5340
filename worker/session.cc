// SPDX-License-Identifier: Apache-2.0
// The synchronous stream is the simplest thing that works here: one call, one reader, one writer.
#include "worker/session.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "base/cpu.h"
#include "base/status.h"
#include "worker/collectives/choice.h"
#include "worker/collectives/rendezvous.h"
#include "worker/memory.h"

namespace lockstep {
namespace {

constexpr absl::Duration kHangUpTimeout = absl::Seconds(5);

// Ranks with the same name can share memory: one kernel, one view of the file system, one user.
std::string host_name() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  char mounts[64] = {};
  const ssize_t length = readlink("/proc/self/ns/mnt", mounts, sizeof(mounts) - 1);
  return fmt::format("{}/{}/{}", boot, std::string(mounts, length > 0 ? length : 0), getuid());
}

std::string source_of(const cluster::Assignment& assignment) {
  return fmt::format("{}#{}#{}", assignment.checkpoint(), assignment.random_weights(),
                     assignment.random_seed());
}

// The meeting takes this memory before the program is looked at any closer.
absl::Status check_shared_bytes(const program::Program& program, int64_t memory_free) {
  const int64_t bytes = program.shared_bytes();
  if (bytes >= 0 && (memory_free <= 0 || bytes <= memory_free)) return absl::OkStatus();
  return resource_exhausted(
      "values that ranks share need {}, {} are free: use a smaller "
      "--prefill-chunk, or a machine with more",
      memory_text(bytes), memory_text(memory_free));
}

}  // namespace

Session::Session(const WorkerMainOptions& options, const Backend& backend, KeptWorker* kept)
    : options_(options), backend_(backend), kept_(kept) {}

cluster::Hello Session::hello() const {
  cluster::Hello hello;
  hello.set_protocol(kWorkerProtocolVersion);
  hello.set_token(options_.token);
  const Device& device = *backend_.device;
  hello.set_device(device.is_host() ? "cpu" : "cuda " + device.address());
  hello.set_numeric_class(backend_.numeric_class);
  hello.set_isa(isa_name(best_isa()));
  hello.set_host(host_name());
  hello.set_memory_bytes(free_bytes_of(device));
  hello.set_threads(options_.threads);
  hello.set_pid(getpid());
  hello.set_preferred_rank(options_.preferred_rank);
  return hello;
}

absl::Status Session::run() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 5000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto channel = grpc::CreateCustomChannel(options_.coordinator,
                                                 grpc::InsecureChannelCredentials(), arguments);
  const auto stub = cluster::Cluster::NewStub(channel);
  grpc::ClientContext context;
  const std::unique_ptr<Stream> stream = stub->Join(&context);
  {
    absl::MutexLock lock(&write_mutex_);
    stream_ = stream.get();
  }
  cluster::WorkerMessage greeting;
  *greeting.mutable_hello() = hello();
  send(std::move(greeting));

  std::thread reader([&] { read_all(stream.get()); });
  const std::stop_callback on_stop(options_.stop, [this] { end(); });
  absl::Status ending;
  while (std::optional<cluster::CoordinatorMessage> message = next()) {
    if (message->has_refusal()) {
      ending = absl::PermissionDeniedError(message->refusal().reason());
      continue;
    }
    const absl::Status status = handle(*message);
    if (status.ok()) continue;
    report(status);
    // A device's fault stays with its process: the next one finds it well again.
    if (const char* fault = backend_.device->synchronize(); fault != nullptr) {
      ending = device_status(fault, *backend_.device);
      hang_up(stream.get());
      break;
    }
  }
  context.TryCancel();
  reader.join();
  {
    absl::MutexLock lock(&write_mutex_);
    stream_ = nullptr;
  }
  stream->Finish();
  return ending;
}

// --- The reading thread.

void Session::read_all(Stream* stream) {
  cluster::CoordinatorMessage message;
  while (stream->Read(&message)) {
    if (message.has_abort()) abort_epoch(message.epoch());
    absl::MutexLock lock(&mutex_);
    if (message.has_assignment()) assigned_epoch_ = message.epoch();
    mail_.push_back(std::move(message));
    message.Clear();
  }
  end();
}

void Session::end() {
  cancelled_ = true;
  absl::MutexLock lock(&mutex_);
  ended_ = true;
  if (running_ != nullptr) running_->abort();
}

void Session::abort_epoch(uint64_t epoch) {
  absl::MutexLock lock(&mutex_);
  aborted_epoch_ = std::max(aborted_epoch_, epoch);
  if (epoch < assigned_epoch_) return;
  cancelled_ = true;
  if (running_ != nullptr) running_->abort();
}

// --- The caller's thread.

void Session::hang_up(Stream* stream) {
  {
    absl::MutexLock lock(&write_mutex_);
    stream->WritesDone();
  }
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(&ended_), kHangUpTimeout);
}

bool Session::has_mail() const { return ended_ || !mail_.empty(); }

std::optional<cluster::CoordinatorMessage> Session::next() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &Session::has_mail));
  if (ended_ && mail_.empty()) return std::nullopt;
  cluster::CoordinatorMessage message = std::move(mail_.front());
  mail_.pop_front();
  return message;
}

void Session::send(cluster::WorkerMessage message) {
  absl::MutexLock lock(&write_mutex_);
  message.set_epoch(epoch_);
  if (stream_ != nullptr) stream_->Write(message);  // A broken stream ends the reading as well.
}

absl::Status Session::handle(const cluster::CoordinatorMessage& message) {
  if (message.has_assignment()) {
    epoch_ = message.epoch();
    return take(message.assignment());
  }
  if (message.epoch() != epoch_ || kept_->worker == nullptr || cancelled_) return absl::OkStatus();
  cluster::WorkerMessage reply;
  if (message.has_start()) {
    return kept_->worker->start(message.start().pages());
  } else if (message.has_step()) {
    ASSIGN_OR_RETURN(*reply.mutable_result(), kept_->worker->step(message.step()));
  } else if (message.has_logits()) {
    ASSIGN_OR_RETURN(*reply.mutable_logits(), kept_->worker->logits(message.logits()));
  } else {
    return absl::OkStatus();
  }
  send(std::move(reply));
  return absl::OkStatus();
}

absl::Status Session::take(const cluster::Assignment& assignment) {
  const program::Program& program = assignment.program();
  for (const std::string& host : assignment.hosts()) {
    if (host == assignment.hosts(program.rank())) continue;
    return failed_precondition(
        "rank {} is on another host than its peers: this version's workers meet in shared memory, "
        "start all of them on one host, as one user",
        program.rank());
  }
  {
    absl::MutexLock lock(&mutex_);
    cancelled_ = aborted_epoch_ >= epoch_ || ended_;
  }
  // Nobody loads before all have met: a later look would see what peers have taken by then.
  const int64_t memory_free = free_bytes_of(*backend_.device);
  RETURN_IF_ERROR(check_shared_bytes(program, memory_free));
  ASSIGN_OR_RETURN(std::unique_ptr<Collective> collective, meet(assignment));
  RETURN_IF_ERROR(load(assignment, std::move(collective), memory_free));
  cluster::WorkerMessage reply;
  reply.mutable_ready()->set_pages(kept_->worker->pages_possible());
  reply.mutable_ready()->set_weight_bytes(kept_->worker->weight_bytes());
  send(std::move(reply));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Collective>> Session::meet(const cluster::Assignment& assignment) {
  const program::Program& program = assignment.program();
  MeetArgs meeting;
  meeting.rank = program.rank();
  meeting.ranks = program.ranks();
  meeting.epoch = epoch_;
  if (backend_.device->is_host()) meeting.shared_bytes = program.shared_bytes();
  meeting.group = assignment.group();
  // Where no join token is asked for, the group's random name is secret enough to meet under.
  meeting.token = options_.token.empty() ? assignment.group() : options_.token;
  meeting.collective_timeout = std::chrono::milliseconds(assignment.collective_timeout_ms());
  meeting.cancelled = &cancelled_;
  ASSIGN_OR_RETURN(std::unique_ptr<Collective> met, meet_in_shared_memory(meeting));
  CollectiveChoice choice;
  auto collective =
      device_collective(std::move(met), *backend_.device,
                        {.timeout = meeting.collective_timeout, .cancelled = &cancelled_}, &choice);
  if (program.rank() == 0 && !choice.text.empty()) {
    spdlog::log(choice.fell_back ? spdlog::level::warn : spdlog::level::info, "collectives {}",
                choice.text);
  }
  return collective;
}

absl::Status Session::load(const cluster::Assignment& assignment,
                           std::unique_ptr<Collective> collective, int64_t memory_free) {
  const std::string program = assignment.program().SerializeAsString();
  const std::string checkpoint = source_of(assignment);
  {
    absl::MutexLock lock(&mutex_);
    running_ = nullptr;
  }
  if (kept_->worker != nullptr && kept_->program == program && kept_->checkpoint == checkpoint) {
    kept_->worker->rejoin(std::move(collective));
  } else {
    kept_->worker.reset();  // Frees the memory first.
    WorkerOptions options{.threads = options_.threads,
                          .processors = options_.processors,
                          .cancelled = &cancelled_,
                          .backend = &backend_,
                          .memory_fraction = options_.memory_fraction,
                          .weight_cache = options_.weight_cache,
                          .memory_free_bytes = memory_free};
    options.progress = [this](int64_t done, int64_t total) {
      cluster::WorkerMessage message;
      message.mutable_progress()->set_bytes_done(done);
      message.mutable_progress()->set_bytes_total(total);
      send(std::move(message));
    };
    ASSIGN_OR_RETURN(kept_->worker, Worker::load(assignment, std::move(collective), options));
    kept_->program = program;
    kept_->checkpoint = checkpoint;
  }
  absl::MutexLock lock(&mutex_);
  running_ = kept_->worker.get();
  if (cancelled_) running_->abort();
  return absl::OkStatus();
}

void Session::report(const absl::Status& status) {
  spdlog::info("epoch {} ended: {}", epoch_, message_of(status));
  cluster::WorkerMessage message;
  cluster::Failure& failure = *message.mutable_failure();
  failure.set_message(message_of(status));
  failure.set_code(static_cast<int32_t>(status.code()));
  failure.set_peer_lost(status.code() == absl::StatusCode::kUnavailable ||
                        status.code() == absl::StatusCode::kAborted ||
                        status.code() == absl::StatusCode::kCancelled ||
                        status.code() == absl::StatusCode::kDeadlineExceeded);
  send(std::move(message));
  absl::MutexLock lock(&mutex_);
  running_ = nullptr;
}

}  // namespace lockstep

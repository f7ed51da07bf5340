// SPDX-License-Identifier: Apache-2.0
// From an assignment to weights in memory: as a rank, which meets its peers first, or for later.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/quantization.h"
#include "base/status.h"
#include "base/thread_priority.h"
#include "worker/assignment.h"
#include "worker/collectives/choice.h"
#include "worker/collectives/routes.h"
#include "worker/data_meeting.h"
#include "worker/memory.h"
#include "worker/proven_kernels.h"
#include "worker/session.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

// The meeting takes this memory before the weights are looked at.
absl::Status check_shared_bytes(const program::Program& program, int64_t memory_free) {
  const int64_t bytes = program.shared_bytes();
  if (memory_free <= 0 || bytes <= memory_free) return absl::OkStatus();
  return resource_exhausted(
      "values that ranks share need {}, {} are free: use a smaller "
      "--prefill-chunk, or a machine with more",
      memory_text(bytes), memory_text(memory_free));
}

// Whether all ranks here may have old weights and new ones for a while. A GPU has the new ones
// alone.
bool has_room_beside(const cluster::Assignment& assignment, const Backend& backend) {
  if (!backend.device->is_host()) return false;
  int64_t bytes = 0;
  for (const program::Weight& weight : assignment.program().weights()) {
    bytes += matrix_bytes(dtype_of(weight.dtype()), weight.rows(), weight.cols());
  }
  const int64_t memory_free = free_bytes_of(*backend.device);
  // Twice: for buffers, and for peers that count meanwhile what is left for KV pages.
  return memory_free <= 0 || 2 * bytes <= memory_free / ranks_here(assignment);
}

// On a thread of its own, so that this one stays as it is: ranks of this host go first.
template <typename Function>
void at_low_priority(const Function& function) {
  std::thread([&] {
    lower_thread_priority();
    function();
  }).join();
}

}  // namespace

// What the next epoch has no use for is freed before its ranks meet: they count what is free then.
void Session::leave_last_epoch(const Work& work) {
  {
    const MutexLock lock(&mutex_);
    running_ = nullptr;
  }
  const bool holds = work.keep || (work.reuse && has_room_beside(*work.assignment, backend_));
  if (!holds) kept_->held.reset();
  if (kept_->worker == nullptr) return;
  if (work.keep) return kept_->worker->drop_pages();
  if (holds) kept_->held = kept_->worker->release();
  kept_->worker.reset();
}

absl::StatusOr<WorkResult> Session::load(const Work& work) {
  leave_last_epoch(work);
  // Nobody loads before all have met: a later look would see what peers have taken by then.
  const int64_t memory_free = free_bytes_of(*backend_.device);
  RETURN_IF_ERROR(check_shared_bytes(work.assignment->program(), memory_free));
  ASSIGN_OR_RETURN(std::unique_ptr<Collective> met, meet(work));
  RETURN_IF_ERROR(load_worker(work, std::move(met), memory_free));
  WorkResult result{.stamp = kept_->worker->source().stamp,
                    .bytes_loaded = progress_.bytes_loaded.load()};
  result.reply.mutable_ready()->set_pages(kept_->worker->pages_possible());
  result.reply.mutable_ready()->set_sequences(kept_->worker->sequences_possible());
  result.reply.mutable_ready()->set_weight_bytes(kept_->worker->weight_bytes());
  const std::vector<std::string>& kernels = kept_->worker->kernels();
  *result.reply.mutable_ready()->mutable_kernels() = {kernels.begin(), kernels.end()};
  result.reply.mutable_ready()->set_contents(kept_->worker->source().contents);
  result.reply.mutable_ready()->set_written_at(kept_->worker->source().written_at);
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

// First those of this host, then each rank the others to which it sends, or from which it receives.
absl::StatusOr<std::unique_ptr<Collective>> Session::meet_over_hosts(const Work& work,
                                                                     MeetArgs meeting) {
  const cluster::Assignment& assignment = *work.assignment;
  if (options_.data_port == nullptr) {
    return failed_precondition(
        "rank {} has no port for the data of ranks on other hosts: start it with --data-listen "
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
          .held = &kept_->held};
}

absl::Status Session::load_worker(const Work& work, std::unique_ptr<Collective> met,
                                  int64_t memory_free) {
  const std::vector<std::string> wanted(work.assignment->kernels().begin(),
                                        work.assignment->kernels().end());
  if (kept_->worker != nullptr && !computes_as(kept_->worker->kernels(), wanted)) {
    kept_->worker.reset();  // The group agreed on other kernels, for which weights lie otherwise.
  }
  if (work.keep && kept_->worker != nullptr) {
    RETURN_IF_ERROR(kept_->worker->rejoin(*work.assignment, std::move(met)));
  } else {
    ASSIGN_OR_RETURN(kept_->worker,
                     Worker::load(*work.assignment, std::move(met), worker_options(memory_free)));
  }
  const MutexLock lock(&mutex_);
  running_ = kept_->worker.get();
  if (cancelled_) running_->abort();
  return absl::OkStatus();
}

// What was a rank with this very program is one whose pages are dropped.
absl::StatusOr<WorkResult> Session::preload(const Work& work) {
  leave_last_epoch(work);
  if (kept_->worker == nullptr) {
    absl::Status status;
    at_low_priority([&] {
      auto held =
          Worker::preload(*work.assignment, worker_options(free_bytes_of(*backend_.device)));
      status = held.status();
      if (status.ok()) kept_->held = *std::move(held);
    });
    RETURN_IF_ERROR(status);
  }
  WorkResult result;
  const bool rank = kept_->worker != nullptr;
  result.stamp = rank ? kept_->worker->source().stamp : kept_->held->stamp;
  result.reply.mutable_preloaded()->set_weight_bytes(rank ? kept_->worker->weight_bytes()
                                                          : kept_->held->weights.bytes());
  return result;
}

}  // namespace lockstep

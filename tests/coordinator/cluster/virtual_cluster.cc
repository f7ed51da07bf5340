// SPDX-License-Identifier: Apache-2.0
#include "tests/coordinator/cluster/virtual_cluster.h"

#include <utility>

#include "proto/handshake.h"

namespace lockstep::testing {

const cluster::Assignment& VirtualWorker::assignment() const {
  static const cluster::Assignment none;
  for (auto message = received.rbegin(); message != received.rend(); ++message) {
    if (message->has_assignment()) return message->assignment();
  }
  return none;
}

int VirtualWorker::preload() const {
  for (auto message = received.rbegin(); message != received.rend(); ++message) {
    if (message->has_preload()) return message->preload().program().rank();
  }
  return -1;
}

std::string VirtualWorker::refusal() const {
  return received.empty() ? "" : received.back().refusal().reason();
}

cluster::Failure failure_of(absl::StatusCode code) {
  cluster::Failure failure;
  failure.set_code(static_cast<int32_t>(code));
  failure.set_message("rank 1: it went wrong");
  return failure;
}

VirtualCluster::VirtualCluster(ClusterCoreOptions options) : core_(std::move(options)) {}

ClusterCoreOptions VirtualCluster::default_options() {
  ClusterCoreOptions options{.workers = 2, .min_workers = 2};
  options.assignment.set_checkpoint("/models/one");
  options.assignment.set_max_pages(100);
  options.compile =
      [](const std::vector<WorkerFacts>& workers) -> absl::StatusOr<std::vector<program::Program>> {
    const int ranks = static_cast<int>(workers.size());
    std::vector<program::Program> programs(ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      programs[rank].set_rank(rank);
      programs[rank].set_ranks(ranks);
      programs[rank].set_vocab(128);
      programs[rank].set_numeric_class(group_class(workers).value());
    }
    return programs;
  };
  options.draw_group_name = [] { return "a-test-group"; };
  options.draw_data_key = [] { return "a-test-key"; };
  return options;
}

cluster::Hello VirtualCluster::default_hello() {
  cluster::Hello hello;
  hello.set_protocol(kProtocolVersion);
  hello.set_device("cpu");
  hello.set_host("here");
  hello.set_numeric_class("f32.v1");
  hello.set_threads(1);
  hello.set_preferred_rank(-1);
  return hello;
}

LinkId VirtualCluster::open() {
  const LinkId link = ++last_link_;
  workers_[link] = {.link = link, .beats = false};
  core_.opened(now_, link);
  settle();
  return link;
}

LinkId VirtualCluster::join(cluster::Hello hello, VirtualWorker worker) {
  const LinkId link = open();
  if (hello.pid() == 0) hello.set_pid(100 + static_cast<int>(link));
  worker.link = link;
  worker.hello = hello;
  workers_[link] = std::move(worker);
  cluster::WorkerMessage message;
  *message.mutable_hello() = std::move(hello);
  say(link, std::move(message));
  return link;
}

void VirtualCluster::say(LinkId link, cluster::WorkerMessage message) {
  if (message.epoch() == 0) message.set_epoch(workers_.at(link).epoch);
  core_.message(now_, link, std::move(message));
  settle();
}

void VirtualCluster::hang_up(LinkId link) {
  workers_.at(link).open = false;
  core_.closed(now_, link);
  settle();
}

void VirtualCluster::want_group(const GroupRequirements& requirements) {
  formed_.reset();
  lost_.reset();
  core_.want_group(now_, requirements);
  settle();
}

void VirtualCluster::step(uint64_t number) {
  cluster::CoordinatorMessage message;
  message.mutable_step()->set_step(number);
  replied_ = false;
  core_.exchange(now_, std::move(message));
  settle();
}

void VirtualCluster::pass(int64_t ms) {
  const int64_t end = now_ + ms;
  while (now_ < end) {
    now_ += kTickMs;
    if (now_ % 250 == 0) beat();
    core_.tick(now_);
    settle();
  }
}

void VirtualCluster::beat() {
  for (auto& [link, worker] : workers_) {
    if (!worker.open || !worker.beats) continue;
    worker.progress += worker.advances ? 1 : 0;
    cluster::WorkerMessage message;
    message.mutable_heartbeat()->set_progress(worker.progress);
    message.mutable_heartbeat()->set_waiting(worker.waits);
    say(link, std::move(message));
  }
}

void VirtualCluster::settle() {
  for (auto actions = core_.take_actions(); !actions.empty(); actions = core_.take_actions()) {
    for (ClusterAction& action : actions) carry_out(std::move(action));
  }
}

void VirtualCluster::carry_out(ClusterAction action) {
  using namespace cluster_action;
  if (const auto* send = std::get_if<Send>(&action)) {
    for (const LinkId link : send->links) deliver(workers_.at(link), send->message);
  } else if (const auto* close = std::get_if<Close>(&action)) {
    workers_.at(close->link).open = false;
  } else if (const auto* start = std::get_if<StartWorker>(&action)) {
    started_.push_back(start->index);
  } else if (const auto* kill = std::get_if<KillWorker>(&action)) {
    killed_.push_back(kill->index);
  } else if (const auto* formed = std::get_if<GroupFormed>(&action)) {
    formed_ = formed->info;
  } else if (const auto* lost = std::get_if<GroupLost>(&action)) {
    lost_ = lost->why;
  } else if (std::get_if<RankReplies>(&action) != nullptr) {
    replied_ = true;
  } else if (const auto* impossible = std::get_if<FormingImpossible>(&action)) {
    impossible_ = impossible->why;
  } else if (const auto* log = std::get_if<Log>(&action)) {
    log_ += log->line + "\n";
  }
}

void VirtualCluster::deliver(VirtualWorker& worker, const cluster::CoordinatorMessage& message) {
  worker.received.push_back(message);
  if (!worker.open) return;
  if (message.has_assignment()) {
    worker.epoch = message.epoch();
    worker.progress = 0;
  }
  answer(worker, message);
}

void VirtualCluster::answer(VirtualWorker& worker, const cluster::CoordinatorMessage& message) {
  cluster::WorkerMessage reply;
  reply.set_epoch(message.epoch());
  const bool works = (message.has_assignment() && worker.loads) ||
                     (message.has_preload() && worker.preloads) ||
                     ((message.has_step() || message.has_logits()) && worker.steps);
  if (!works) return;
  if (worker.failure.has_value() && message.has_preload()) {
    *reply.mutable_preloaded()->mutable_failure() = *std::exchange(worker.failure, std::nullopt);
  } else if (message.has_preload()) {
    reply.mutable_preloaded()->set_weight_bytes(worker.weight_bytes);
  } else if (worker.failure.has_value()) {
    *reply.mutable_failure() = *std::exchange(worker.failure, std::nullopt);
  } else if (message.has_assignment()) {
    reply.mutable_ready()->set_pages(worker.pages);
    reply.mutable_ready()->set_weight_bytes(worker.weight_bytes);
    reply.mutable_ready()->set_contents(worker.contents);
    reply.mutable_ready()->set_written_at(worker.written_at);
    for (size_t i = 0; i < worker.kernels.size(); ++i) {
      std::string all;
      const bool assigned = worker.obeys && message.assignment().kernels_size() > 0;
      if (assigned) all = message.assignment().kernels(static_cast<int>(i));
      for (const std::string& kernel : worker.kernels[i]) {
        if (!assigned || kernel != message.assignment().kernels(static_cast<int>(i))) {
          all += (all.empty() ? "" : ",") + kernel;
        }
      }
      reply.mutable_ready()->add_kernels(all);
    }
  } else if (message.has_step()) {
    reply.mutable_result()->set_step(message.step().step());
    for (int i = 0; i < message.step().outputs_size(); ++i) reply.mutable_result()->add_outputs();
  } else {
    reply.mutable_logits()->set_step(message.logits().step());
    reply.mutable_logits()->set_output(message.logits().output());
  }
  core_.message(now_, worker.link, std::move(reply));
}

std::vector<int> VirtualCluster::take_started() { return std::exchange(started_, {}); }

std::vector<int> VirtualCluster::take_killed() { return std::exchange(killed_, {}); }

void VirtualCluster::process_started(int index, int pid) {
  core_.worker_started(now_, index, pid);
  settle();
}

void VirtualCluster::process_exited(int index, const ProcessEnd& end) {
  core_.worker_exited(now_, index, end);
  settle();
}

}  // namespace lockstep::testing

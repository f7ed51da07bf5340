// SPDX-License-Identifier: Apache-2.0
#include "tests/support/cluster/in_process_cluster.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/check.h"
#include "base/status.h"
#include "checkpoint/checkpoint.h"
#include "models/models.h"
#include "models/tensor_names.h"
#include "sharding/scheme.h"
#include "tests/support/cluster/local_collectives.h"
#include "worker/collectives/devices/choice.h"

namespace lockstep {
namespace {

program::Limits with_defaults(program::Limits limits, int64_t context) {
  if (limits.rows() == 0) limits.set_rows(128);
  if (limits.sequences() == 0) limits.set_sequences(std::min<int64_t>(32, limits.rows()));
  if (limits.outputs() == 0) limits.set_outputs(limits.sequences());
  if (limits.context() == 0) limits.set_context(context);
  if (limits.page_tokens() == 0) limits.set_page_tokens(16);
  return limits;
}

// The type of a weight at the workers. If `dtype` is auto, bfloat16 stays, and all other types
// become float32.
DType weight_dtype(const InProcessOptions& options, const Config& config,
                   const std::optional<Checkpoint>& checkpoint, const std::string& source) {
  if (options.dtype == "float32") return DType::kF32;
  if (options.dtype == "bfloat16") return DType::kBF16;
  const TensorInfo* stored = checkpoint.has_value() ? checkpoint->find(source) : nullptr;
  const bool known = stored != nullptr && widens(stored->dtype);
  const DType dtype = known ? stored->dtype : config.dtype;
  return dtype == DType::kBF16 ? DType::kBF16 : DType::kF32;
}

}  // namespace

RankThread::RankThread() : thread_([this] { run(); }) {}

RankThread::~RankThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void RankThread::start(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    LOCKSTEP_CHECK(!work_);
    work_ = std::move(work);
  }
  changed_.notify_all();
}

void RankThread::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !work_; });
}

void RankThread::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || work_; });
    if (!work_) return;
    lock.unlock();
    work_();  // No other thread changes work_ until it is empty.
    lock.lock();
    work_ = nullptr;
    changed_.notify_all();
  }
}

void RankSet::add(int rank) {
  ranks_.fetch_or(uint64_t{1} << rank);
  ranks_.notify_all();
}

void RankSet::wait_for_all_but(int rank, int count) const {
  const uint64_t others = ((uint64_t{1} << count) - 1) & ~(uint64_t{1} << rank);
  for (uint64_t now = ranks_; (now & others) != others; now = ranks_) ranks_.wait(now);
}

namespace {

// Adds its rank to a set when it enters a collective.
class SeenCollective final : public Collective {
 public:
  SeenCollective(std::unique_ptr<Collective> real, RankSet* entered)
      : real_(std::move(real)), entered_(entered) {}
  int rank() const override { return real_->rank(); }
  int ranks() const override { return real_->ranks(); }
  absl::Status all_reduce(float* data, int64_t rows, int64_t cols, int64_t stride) override {
    entered_->add(rank());
    return real_->all_reduce(data, rows, cols, stride);
  }
  absl::StatusOr<bool> reduce_add_norm(const KernelArgs& args) override {
    entered_->add(rank());
    return real_->reduce_add_norm(args);
  }
  absl::Status all_gather(const GatherArgs& args) override {
    entered_->add(rank());
    return real_->all_gather(args);
  }
  absl::Status finish() override {
    entered_->add(rank());
    return real_->finish();
  }
  std::span<std::byte> shared() override { return real_->shared(); }
  bool can_be_captured(int64_t gather_bytes) const override {
    return real_->can_be_captured(gather_bytes);
  }
  void abort() override { real_->abort(); }
  Waited waited() const override { return real_->waited(); }

 private:
  const std::unique_ptr<Collective> real_;
  RankSet* const entered_;
};

}  // namespace

class InProcessCluster::InProcessGroup final : public Group {
 public:
  InProcessGroup(InProcessCluster& cluster, GroupInfo info)
      : cluster_(cluster), info_(std::move(info)) {}

  const GroupInfo& info() const override { return info_; }

  absl::Status send(std::shared_ptr<const cluster::Step> step) override {
    if (over_ || cluster_.epoch_ != info_.epoch) return unavailable("the group is over");
    step_ = std::move(step);
    return absl::OkStatus();
  }

  absl::StatusOr<std::optional<RankResults>> receive(int64_t) override {
    auto results = cluster_.step(*step_);
    over_ = !results.ok();
    if (!results.ok()) return results.status();
    return *std::move(results);
  }

  absl::Status ask_logits(uint64_t step, int output) override {
    if (over_ || cluster_.epoch_ != info_.epoch) return unavailable("the group is over");
    question_.set_step(step);
    question_.set_output(output);
    return absl::OkStatus();
  }

  absl::StatusOr<std::optional<std::vector<float>>> receive_logits(int64_t) override {
    std::string bytes;
    for (const auto& worker : cluster_.workers_) {
      ASSIGN_OR_RETURN(const cluster::LogitsReply reply, worker->logits(question_));
      bytes += reply.logits();
    }
    std::vector<float> logits(bytes.size() / sizeof(float));
    std::memcpy(logits.data(), bytes.data(), bytes.size());
    return logits;
  }

  void abort() override {
    for (const auto& worker : cluster_.workers_) worker->abort();
  }

 private:
  InProcessCluster& cluster_;
  const GroupInfo info_;
  bool over_ = false;
  std::shared_ptr<const cluster::Step> step_;  // Set by the last send().
  cluster::LogitsRequest question_;            // Set by the last ask_logits().
};

absl::StatusOr<std::unique_ptr<InProcessCluster>> InProcessCluster::open(
    const InProcessOptions& options) {
  std::unique_ptr<InProcessCluster> cluster(new InProcessCluster);
  cluster->options_ = options;
  ASSIGN_OR_RETURN(ModelDescription description, describe_model(options.model, {}, 0));
  std::optional<Checkpoint> checkpoint;
  if (!options.random_seed.has_value()) {
    ASSIGN_OR_RETURN(checkpoint, Checkpoint::open(options.model));
    use_names_of(*checkpoint, description.config, description.graph);
  }
  CompileOptions compile_options;
  compile_options.strategy = options.strategy;
  compile_options.workers.resize(options.ranks);
  for (int rank = 0; rank < options.ranks; ++rank) {
    if (options.backend) cluster->backends_.push_back(options.backend());
    WorkerFacts& facts = compile_options.workers[rank];
    facts.numeric_class = cpu_backend().numeric_class;
    if (options.backend) {
      const Backend& backend = cluster->backends_[rank];
      facts.numeric_class = backend.numeric_class;
      if (!backend.device->is_host()) facts.device = backend.device->name();
    }
    if (!options.speeds.empty()) compile_options.workers[rank].speed = options.speeds[rank];
  }
  compile_options.limits = with_defaults(options.limits, description.config.context);
  const Scheme* scheme =
      find_scheme(options.quantize.empty() ? description.config.scheme : options.quantize);
  compile_options.weight_dtype = [&](const std::string& source, program::Role role) {
    return scheme != nullptr ? scheme->kind_of(role)
                             : weight_dtype(options, description.config, checkpoint, source);
  };
  for (const Parameter& parameter : description.graph.parameters()) {
    if (parameter.role != program::LINEAR_WEIGHT) continue;
    const std::string& source = parameter.pieces[0].source();
    if (weight_dtype(options, description.config, checkpoint, source) == DType::kBF16) {
      compile_options.kv_dtype = DType::kBF16;
    }
  }
  if (options.kv_dtype != DType::kNone) compile_options.kv_dtype = options.kv_dtype;
  ASSIGN_OR_RETURN(cluster->programs_, compile(description.graph, compile_options));
  for (int rank = 0; rank < options.ranks; ++rank) {
    cluster->threads_.push_back(std::make_unique<RankThread>());
  }
  return cluster;
}

absl::Status InProcessCluster::on_all(const std::function<absl::Status(int)>& work) {
  std::vector<absl::Status> statuses(options_.ranks);
  for (int rank = 0; rank < options_.ranks; ++rank) {
    threads_[rank]->start([&, rank] { statuses[rank] = work(rank); });
  }
  for (const auto& thread : threads_) thread->wait();
  for (const absl::Status& status : statuses) RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

absl::Status InProcessCluster::load_or_rejoin() {
  auto collectives =
      local_collectives(options_.ranks, kCollectiveTimeout, programs_[0].shared_bytes());
  const bool fresh = workers_.empty();
  std::vector<std::unique_ptr<Worker>> loaded(options_.ranks);
  const absl::Status formed = on_all([&](int rank) {
    WorkerOptions worker_options{.threads = options_.threads};
    if (!backends_.empty()) {
      worker_options.backend = &backends_[rank];
      CollectiveChoice choice;
      ASSIGN_OR_RETURN(collectives[rank],
                       device_collective(std::move(collectives[rank]), *backends_[rank].device,
                                         {.nccl = "off", .pads = backends_[rank].graphs}, &choice));
    }
    collectives[rank] = std::make_unique<SeenCollective>(std::move(collectives[rank]), &waiting_);
    cluster::Assignment assignment;
    *assignment.mutable_program() = programs_[rank];
    assignment.set_checkpoint(options_.model.string());
    assignment.set_random_weights(options_.random_seed.has_value());
    assignment.set_random_seed(options_.random_seed.value_or(0));
    assignment.set_max_pages(options_.max_pages);
    if (!fresh) return workers_[rank]->rejoin(assignment, std::move(collectives[rank]));
    auto worker = Worker::load(assignment, std::move(collectives[rank]), worker_options);
    RETURN_IF_ERROR(worker.status());
    loaded[rank] = std::move(worker).value();
    return absl::OkStatus();
  });
  RETURN_IF_ERROR(formed);
  if (fresh) workers_ = std::move(loaded);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Group>> InProcessCluster::form(const GroupRequirements&) {
  if (stopped_) return absl::CancelledError("the cluster was shut down");
  RETURN_IF_ERROR(load_or_rejoin());
  GroupInfo info = group_info(programs_[0]);
  info.epoch = ++epoch_;
  info.pages = workers_[0]->pages_possible();
  for (const auto& worker : workers_) {
    info.pages = std::min(info.pages, worker->pages_possible());
    info.max_sequences = std::min(info.max_sequences, worker->sequences_possible());
    info.weight_bytes += worker->weight_bytes();
  }
  RETURN_IF_ERROR(on_all([&](int rank) { return workers_[rank]->start(info.pages); }));
  all_pages_.clear();
  const int failing = failing_rank_.exchange(-1);  // The failure must not strike this null step.
  RETURN_IF_ERROR(step(cluster::Step()).status());
  if (failing >= 0) failing_rank_ = failing;
  return std::make_unique<InProcessGroup>(*this, std::move(info));
}

absl::StatusOr<cluster::StepResult> InProcessCluster::step_rank(int rank, const cluster::Step& step,
                                                                int failing) {
  if (rank != failing) {
    auto result = workers_[rank]->step(step);
    waiting_.add(rank);  // A rank whose program has no collectives is not in the set yet.
    return result;
  }
  waiting_.wait_for_all_but(rank, options_.ranks);
  for (const auto& worker : workers_) worker->abort();  // A coordinator does so, too.
  return unavailable("rank {} was lost", rank);
}

absl::StatusOr<std::vector<cluster::StepResult>> InProcessCluster::step(const cluster::Step& step) {
  count_pages(step);
  const int failing = failing_rank_.exchange(-1);
  waiting_.clear();
  std::vector<cluster::StepResult> results(options_.ranks);
  const absl::Status status = on_all([&](int rank) {
    ASSIGN_OR_RETURN(results[rank], step_rank(rank, step, failing));
    return absl::OkStatus();
  });
  // The other ranks report an abort; the reason is the lost rank.
  if (failing >= 0 && failing < options_.ranks) return unavailable("rank {} was lost", failing);
  if (!status.ok()) return status;
  return results;
}

void InProcessCluster::count_pages(const cluster::Step& step) {
  last_pages_.clear();
  for (const cluster::StepSequence& sequence : step.sequences()) {
    std::vector<int32_t>& pages = pages_by_slot_[sequence.slot()];
    if (sequence.begins()) pages.clear();
    pages.insert(pages.end(), sequence.pages().begin(), sequence.pages().end());
    last_pages_.insert(pages.begin(), pages.end());
  }
  all_pages_.insert(last_pages_.begin(), last_pages_.end());
}

}  // namespace lockstep

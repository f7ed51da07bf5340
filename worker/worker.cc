// SPDX-License-Identifier: Apache-2.0
// The life of one rank: check and bind the program, load its weights, then run steps.
#include "worker/worker.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/status.h"
#include "base/system/clock.h"
#include "proto/step_values.h"
#include "proto/validate/validate.h"
#include "worker/kernel_choice/proven_kernels.h"
#include "worker/steps/warm_up.h"
#include "worker/weights/weights_key.h"

namespace lockstep {
namespace {

using program::Program;

StepLimits step_limits(const Program& program) {
  StepLimits limits{
      .limits = program.limits(), .vocab = program.vocab(), .hidden = program.hidden()};
  for (const program::Instruction& instruction : program.instructions()) {
    if (instruction.op() != program::TOP_CANDIDATES) continue;
    limits.slice_begin = instruction.attributes().top_candidates().vocab_begin();
    limits.slice_columns = program.values(instruction.inputs(0).value()).cols();
  }
  return limits;
}

// Ranks that load at the same time on one host share the same free memory.
absl::Status check_memory(const Device& device, int64_t weights, int64_t buffers, int ranks_loading,
                          int64_t free_bytes) {
  int64_t needed = 0;
  if (__builtin_add_overflow(weights, buffers, &needed) ||
      __builtin_mul_overflow(needed, std::max(1, ranks_loading), &needed)) {
    needed = INT64_MAX;
  }
  if (free_bytes <= 0 || needed <= free_bytes) return absl::OkStatus();
  return resource_exhausted(
      "weights and buffers of {} need {} of memory{}, {} are free: use a smaller --dtype or "
      "--prefill-chunk, --quantize, or a machine with more memory",
      ranks_loading > 1 ? fmt::format("the {} ranks here", ranks_loading) : "this rank",
      memory_text(needed), device.is_host() ? "" : " on " + device.name(), memory_text(free_bytes));
}

// The trace of a step that began and ended at these times.
void give_trace(const std::vector<OperatorTime>& operators, int64_t begin_ns, int64_t end_ns,
                bool queued, cluster::StepTrace* trace) {
  trace->set_total_ns(end_ns - begin_ns);
  trace->set_queued(queued);
  for (const OperatorTime& one : operators) {
    trace->add_instructions(one.instruction);
    trace->add_begin_ns(one.begin_ns - begin_ns);
    trace->add_duration_ns(one.end_ns - one.begin_ns);
    trace->add_wait_ns(std::clamp<int64_t>(one.wait_ns, 0, one.end_ns - one.begin_ns));
  }
}

absl::Status of_rank(const Program& program, const absl::Status& status) {
  return absl::Status(status.code(),
                      fmt::format("rank {}: {}", program.rank(), message_of(status)));
}

}  // namespace

Worker::Worker(const cluster::Assignment& assignment, std::unique_ptr<Collective> collective,
               const WorkerOptions& options)
    : program_(assignment.program()),
      processor_(options.backend == nullptr ? cpu_backend() : Backend()),
      backend_(options.backend == nullptr ? processor_ : *options.backend),
      device_(*backend_.device),
      limits_(step_limits(program_)),
      buffers_(limits_),
      threads_(options.threads, options.processors),
      collective_(std::move(collective)),
      progress_(options.progress) {}

absl::Status Worker::load(const cluster::Assignment& assignment, const WorkerOptions& options) {
  RETURN_IF_ERROR(prepare(assignment, options));
  ASSIGN_OR_RETURN(executor_, Executor::make(program_, bindings_, *weights_, device_, threads_));
  if (backend_.check_each_kernel) executor_->check_each_kernel();
  RETURN_IF_ERROR(
      warm_up(program_, bindings_, device_, backend_.warm_up_rows, progress_, *executor_));
  if (backend_.graphs) executor_->use_graphs();
  executor_->use(collective_.get());
  executor_->use(progress_);
  return count_pages(assignment);
}

absl::Status Worker::prepare(const cluster::Assignment& assignment, const WorkerOptions& options) {
  RETURN_IF_ERROR(check_serves(backend_, program_.numeric_class()));
  device_.use_from_this_thread();
  ASSIGN_OR_RETURN(const WeightSource source, open_source(assignment, options.progress));
  ASSIGN_OR_RETURN(source_, source_mark(source, options.progress));
  ProvenOptions proven{.folder = options.weight_cache.folder,
                       .wanted = {assignment.kernels().begin(), assignment.kernels().end()},
                       .progress = options.progress,
                       .cancelled = options.cancelled};
  ASSIGN_OR_RETURN(bindings_, bind_proven(program_, backend_, source, threads_, proven, &kernels_));
  std::vector<MappedWeight> mapped;
  if (assignment.embedding_in_file() && device_.is_host()) {
    mapped = map_embeddings(program_, source, &bindings_);
  }
  RETURN_IF_ERROR(load_weights(assignment, options, source));
  ASSIGN_OR_RETURN(const std::string stamp_now, source_stamp(source));
  if (stamp_now != source_.stamp) {
    return unavailable("{}: the files were rewritten while they were read; they are read again",
                       assignment.checkpoint());
  }
  for (MappedWeight& weight : mapped) weights_->take(std::move(weight));
  return absl::OkStatus();
}

absl::Status Worker::load_weights(const cluster::Assignment& assignment,
                                  const WorkerOptions& options, const WeightSource& source) {
  const WeightPlan plan = plan_weights(program_, bindings_);
  const int threads = threads_.threads();
  int64_t buffers = buffer_bytes(program_, bindings_, threads);
  if (device_.is_host()) buffers += threads * plan.block_bytes;
  int64_t free_bytes =
      options.memory_free_bytes > 0 ? options.memory_free_bytes : free_bytes_of(device_);
  std::unique_ptr<RetainedWeights> none;
  std::unique_ptr<RetainedWeights>& retained =
      options.retained != nullptr ? *options.retained : none;
  if (retained != nullptr && retained->stamp != source_.stamp) retained.reset();
  if (retained != nullptr && retained->serve_all(program_, bindings_)) {
    RETURN_IF_ERROR(check_memory(device_, 0, buffers, assignment.loading_here(), free_bytes));
    spdlog::info("weights: all {} are in memory: nothing is read",
                 memory_text(retained->weights.bytes()));
    weights_ = std::move(retained->weights);
    weights_->drop_files();
    retained.reset();
    return absl::OkStatus();
  }
  // Counts as if all ranks on this device had old and new weights in memory at the same time.
  const bool fits =
      check_memory(device_, plan.bytes, buffers, ranks_here(assignment), free_bytes).ok();
  if (retained != nullptr && !(fits && device_.is_host())) {
    if (free_bytes > 0) free_bytes += retained->weights.bytes();
    retained.reset();
  }
  RETURN_IF_ERROR(
      check_memory(device_, plan.bytes, buffers, assignment.loading_here(), free_bytes));
  ASSIGN_OR_RETURN(const std::optional<PackedCache> cache, open_cache(options, plan.bytes));
  ASSIGN_OR_RETURN(weights_, Weights::load(program_, bindings_, plan, source, device_, threads_,
                                           {.progress = options.progress,
                                            .cancelled = options.cancelled,
                                            .cache = cache.has_value() ? &*cache : nullptr,
                                            .retained = &retained}));
  return absl::OkStatus();
}

absl::StatusOr<std::optional<PackedCache>> Worker::open_cache(const WorkerOptions& options,
                                                              int64_t bytes) {
  const PackedCacheOptions& cache = options.weight_cache;
  const bool kept = device_.is_host() && !cache.folder.empty() && bytes >= cache.min_bytes;
  if (!kept) return std::nullopt;
  ASSIGN_OR_RETURN(std::string key, weights_key(program_, bindings_, source_));
  return PackedCache(cache, std::move(key), options.progress);
}

std::unique_ptr<RetainedWeights> Worker::release() {
  drop_pages();
  executor_.reset();
  auto retained = std::make_unique<RetainedWeights>();
  retained->stamp = source_.stamp;
  *retained->program.mutable_weights() = program_.weights();
  retained->bindings = std::move(bindings_);
  retained->weights = *std::move(weights_);
  return retained;
}

absl::Status Worker::count_pages(const cluster::Assignment& assignment) {
  const PageBudget budget{.memory_bytes = assignment.kv_memory_bytes(),
                          .free_bytes = free_bytes_of(device_),
                          .total_bytes = total_bytes_of(device_),
                          .weight_bytes = weights_->bytes(),
                          .ranks_here = ranks_here(assignment),
                          .fraction = backend_.memory_fraction,
                          .max_pages = assignment.max_pages(),
                          .spare = backend_.graphs ? 1 : 0};
  room_ = state_that_fits(program_, bindings_, budget);
  if (room_.pages > 0 && room_.sequences > 0) return absl::OkStatus();
  const bool blocks = room_.sequences == 0;
  const bool is_free = 0 < budget.memory_bytes && budget.memory_bytes <= budget.free_bytes;
  return resource_exhausted(
      "no room for {} of {}: {} are free and --kv-memory is {}; {}",
      blocks ? "one sequence's state" : "one KV page",
      memory_text(blocks ? block_bytes_of(program_, bindings_)
                         : page_bytes_of(program_, bindings_)),
      memory_text(budget.free_bytes),
      budget.memory_bytes > 0 ? memory_text(budget.memory_bytes) : "not set",
      is_free ? "raise --kv-memory, or leave it out" : "free some memory, or use more workers");
}

absl::Status Worker::start(int64_t pages) {
  if (state_.has_value()) {
    return fail(absl::FailedPreconditionError("started a second time without a new epoch"));
  }
  if (pages < 1 || pages > room_.pages) {
    return fail(
        invalid_argument("the number of KV pages must be 1 to {}, found {}", room_.pages, pages));
  }
  device_.use_from_this_thread();
  const StateRoom room = {.pages = pages, .sequences = room_.sequences, .spare = room_.spare};
  absl::StatusOr<State> state = State::allocate(program_, bindings_, device_, room);
  if (!state.ok()) return fail(state.status());
  state_ = std::move(state).value();
  executor_->use(*state_);
  if (progress_ != nullptr) progress_->instructions = 0;
  tables_.emplace(program_.limits(), room, has_blocks(program_));
  return absl::OkStatus();
}

absl::Status Worker::fail(const absl::Status& status) const { return of_rank(program_, status); }

void Worker::abort() {
  const std::lock_guard lock(collective_mutex_);
  collective_->abort();
}

void Worker::drop_pages() {
  state_.reset();
  tables_.reset();
  last_step_.reset();
}

absl::Status Worker::rejoin(const cluster::Assignment& assignment,
                            std::unique_ptr<Collective> collective) {
  LOCKSTEP_CHECK(collective->rank() == program_.rank() && collective->ranks() == program_.ranks());
  drop_pages();
  {
    const std::lock_guard lock(collective_mutex_);
    collective_ = std::move(collective);
    executor_->use(collective_.get());
  }
  const absl::Status status = count_pages(assignment);
  return status.ok() ? status : fail(status);
}

absl::StatusOr<cluster::StepResult> Worker::step(const cluster::Step& step) {
  const int64_t begin_ns = steady_now_ns();
  if (!state_.has_value()) {
    return fail(absl::FailedPreconditionError("a step arrived before the group was started"));
  }
  if (absl::Status status = check_step(step, limits_, *tables_); !status.ok()) return fail(status);
  if (absl::Status status = check_values(step, program_); !status.ok()) return fail(status);
  tables_->take(step);
  state_->use_pages(tables_->pages_used());
  const Collective::Waited before = collective_->waited();
  last_step_.reset();
  device_.use_from_this_thread();
  StepView& view = buffers_.take(step, *tables_);
  operators_.clear();
  MadeValues values{.begin = step.values().begin(), .end = step.values().end(), .made = {}};
  absl::Status status = executor_->run(view, step.trace() ? &operators_ : nullptr,
                                       step.has_values() ? &values : nullptr);
  if (!status.ok()) return fail(status);
  last_step_ = step.step();
  last_outputs_ = step.outputs_size();
  cluster::StepResult result;
  result.set_step(step.step());
  buffers_.give(step, &result);
  const Collective::Waited after = collective_->waited();
  const int64_t end_ns = steady_now_ns();
  cluster::StepTimes* times = result.mutable_times();
  times->set_wait_ns(after.wait_ns - before.wait_ns);
  times->set_transfer_ns(after.transfer_ns - before.transfer_ns);
  times->set_compute_ns(
      std::max<int64_t>(0, end_ns - begin_ns - times->wait_ns() - times->transfer_ns()));
  if (step.trace()) {
    give_trace(operators_, begin_ns, end_ns, !device_.is_host(), result.mutable_trace());
  }
  for (MadeValues::Made& made : values.made) {
    cluster::StepValue* value = result.add_values();
    value->set_value(made.value);
    value->set_rows(std::move(made.rows));
  }
  return result;
}

absl::StatusOr<cluster::LogitsReply> Worker::logits(const cluster::LogitsRequest& request) {
  if (last_step_ != request.step()) {
    return fail(invalid_argument(
        "logits of step {} are gone: the last completed step is {}", request.step(),
        last_step_.has_value() ? std::to_string(*last_step_) : std::string("none")));
  }
  if (request.output() < 0 || request.output() >= last_outputs_) {
    return fail(invalid_argument("step {} has {} outputs, found a request for number {}",
                                 request.step(), last_outputs_, request.output()));
  }
  device_.use_from_this_thread();
  absl::StatusOr<std::string> logits = executor_->logits(request.output());
  if (!logits.ok()) return fail(logits.status());
  cluster::LogitsReply reply;
  reply.set_step(request.step());
  reply.set_output(request.output());
  reply.set_logits(std::move(logits).value());
  return reply;
}

absl::StatusOr<std::unique_ptr<Worker>> Worker::load(const cluster::Assignment& assignment,
                                                     std::unique_ptr<Collective> collective,
                                                     const WorkerOptions& options) {
  const Program& program = assignment.program();
  const auto named = [&](const absl::Status& status) { return of_rank(program, status); };
  if (absl::Status status = check_load(assignment); !status.ok()) return named(status);
  if (collective->rank() != program.rank() || collective->ranks() != program.ranks()) {
    return named(invalid_argument("the program is for rank {} of {}, the collective for {} of {}",
                                  program.rank(), program.ranks(), collective->rank(),
                                  collective->ranks()));
  }
  std::unique_ptr<Worker> worker(new Worker(assignment, std::move(collective), options));
  if (absl::Status status = worker->load(assignment, options); !status.ok()) return named(status);
  return worker;
}

absl::StatusOr<std::unique_ptr<RetainedWeights>> Worker::preload(
    const cluster::Assignment& assignment, const WorkerOptions& options) {
  const Program& program = assignment.program();
  if (absl::Status status = check_load(assignment); !status.ok()) return of_rank(program, status);
  Worker worker(assignment, /*collective=*/nullptr, options);
  absl::Status status = worker.prepare(assignment, options);
  if (status.ok()) status = worker.count_pages(assignment);
  if (!status.ok()) return of_rank(program, status);
  return worker.release();
}

}  // namespace lockstep

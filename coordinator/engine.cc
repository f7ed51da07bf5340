// SPDX-License-Identifier: Apache-2.0
// One thread forms a group, serves until it is lost, and forms the next.
#include "coordinator/engine.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "coordinator/inbox.h"
#include "coordinator/sampling/sampler.h"
#include "coordinator/scheduler/batch.h"
#include "coordinator/scheduler/scheduler.h"

namespace lockstep {
namespace {

using Results = std::vector<cluster::StepResult>;

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Ranks answer what they were asked, or the group is over.
absl::Status check_results(const Results& results, const cluster::Step& step, int ranks) {
  if (static_cast<int>(results.size()) != ranks) {
    return absl::InternalError(fmt::format("step {}: want results of {} ranks, found {}",
                                           step.step(), ranks, results.size()));
  }
  for (size_t rank = 0; rank < results.size(); ++rank) {
    if (results[rank].outputs_size() == step.outputs_size()) continue;
    return absl::InternalError(fmt::format("step {}: want {} outputs of rank {}, found {}",
                                           step.step(), step.outputs_size(), rank,
                                           results[rank].outputs_size()));
  }
  return absl::OkStatus();
}

std::vector<float> join_logits(const RankCandidates& ranks) {
  std::vector<float> logits;
  for (const cluster::Candidates* rank : ranks) {
    const size_t count = rank->logits().size() / sizeof(float);
    if (count == 0) continue;  // A rank without a slice.
    const size_t before = logits.size();
    logits.resize(before + count);
    std::memcpy(logits.data() + before, rank->logits().data(), count * sizeof(float));
  }
  return logits;
}

}  // namespace

// All but the inbox belongs to the loop's thread.
class Engine::Loop {
 public:
  Loop(Cluster* cluster, const Tokenizer* tokenizer, const EngineOptions& options)
      : inbox_(options), cluster_(cluster), tokenizer_(tokenizer), options_(options) {
    thread_ = std::thread([this] { run(); });
  }

  ~Loop() {
    const std::shared_ptr<Group> group = inbox_.stop();
    cluster_->shutdown();
    if (group != nullptr) group->abort();
    thread_.join();
  }

  Inbox& inbox() { return inbox_; }

 private:
  // A request under way.
  struct Job {
    std::shared_ptr<const Request> request;
    std::shared_ptr<Stream> stream;
    std::vector<std::unique_ptr<Sequence>> choices = {};
    int32_t open = 0;  // Choices that are not finished.
    bool started = false;
    absl::Status end = {};  // With which the stream closes when all choices are finished.
  };

  void run();
  void begin(std::shared_ptr<Group> group);
  absl::Status serve();
  absl::Status null_step();
  absl::Status step();
  absl::StatusOr<Results> run_step(const cluster::Step& step);
  void end_all(const absl::Status& over);

  void submit(Submission submission);
  void cancel(Job& job, const absl::Status& status);
  void fail(Job& job, const absl::Status& status);
  void close(Job& job, const absl::Status& status);
  void sweep();
  void note_started(const Batch& batch);

  absl::Status deliver(Sequence& sequence, const cluster::Step& step, int output,
                       const Results& results);
  void emit(Sequence& sequence, StreamEvent event, const SequenceNews& news);
  absl::Status check_logits(const std::vector<float>& logits) const;
  void publish();

  bool has_work() const { return scheduler_->running() + scheduler_->waiting() > 0; }
  const GroupInfo& info() const { return group_->info(); }

  Inbox inbox_;
  Cluster* const cluster_;
  const Tokenizer* const tokenizer_;
  const EngineOptions options_;

  std::shared_ptr<Group> group_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unordered_map<const Stream*, Job> jobs_;
  uint64_t step_ = 0;
  std::vector<const Stream*> closed_;  // Jobs that go away when the step is done.
  int64_t unstarted_ = 0;              // Jobs of which nothing has run.
  int64_t preemptions_published_ = 0;  // Of this scheduler.
  EngineStats stats_;
  std::thread thread_;
};

// ---- The loop ----

void Engine::Loop::run() {
  for (;;) {
    absl::StatusOr<std::unique_ptr<Group>> group = cluster_->form();
    if (!group.ok()) return inbox_.end(group.status());
    begin(std::move(*group));
    end_all(serve());
  }
}

void Engine::Loop::begin(std::shared_ptr<Group> group) {
  group_ = std::move(group);
  preemptions_published_ = 0;
  scheduler_ = std::make_unique<Scheduler>(
      SchedulerLimits{.rows = info().max_rows,
                      .prefill_chunk = options_.prefill_chunk,
                      .running = std::min(options_.max_running, info().max_sequences),
                      .outputs = info().max_outputs,
                      .pages = info().pages,
                      .page_tokens = info().page_tokens});
  inbox_.open(group_);
}

// Until the group is lost (its status) or the engine stops (kCancelled).
absl::Status Engine::Loop::serve() {
  constexpr int64_t kAnHourMs = 3'600'000;
  const bool idle_steps = options_.idle_step_ms > 0;
  const std::chrono::milliseconds patience(idle_steps ? options_.idle_step_ms : kAnHourMs);
  for (;;) {
    Messages messages = inbox_.take(has_work() ? std::chrono::milliseconds(0) : patience);
    if (messages.stopping) return absl::CancelledError("the server is stopping");
    const int64_t begin_ns = now_ns();
    const int64_t step_ns = stats_.step_ns;
    for (Submission& submission : messages.submitted) submit(std::move(submission));
    for (const std::shared_ptr<Stream>& stream : messages.cancelled) {
      const auto job = jobs_.find(stream.get());
      if (job != jobs_.end()) cancel(job->second, absl::OkStatus());
    }
    if (has_work()) {
      RETURN_IF_ERROR(step());
    } else if (idle_steps && messages.submitted.empty() && messages.cancelled.empty()) {
      RETURN_IF_ERROR(null_step());  // Nothing came for a while.
    }
    sweep();
    stats_.coordinator_ns += now_ns() - begin_ns - (stats_.step_ns - step_ns);
    publish();
  }
}

absl::Status Engine::Loop::step() {
  const Batch batch = scheduler_->schedule();
  note_started(batch);
  const cluster::Step step = make_step(batch, ++step_);
  ASSIGN_OR_RETURN(const Results results, run_step(step));
  for (const BatchItem& item : batch.items) item.sequence->advance(item.rows);
  int output = 0;
  for (const BatchItem& item : batch.items) {
    if (item.sequence->remaining() > 0) continue;
    RETURN_IF_ERROR(deliver(*item.sequence, step, output++, results));
  }
  return absl::OkStatus();
}

absl::Status Engine::Loop::null_step() {
  cluster::Step step;
  step.set_step(++step_);
  return group_->run(step).status();
}

absl::StatusOr<Results> Engine::Loop::run_step(const cluster::Step& step) {
  const int64_t begin_ns = now_ns();
  absl::StatusOr<Results> results = group_->run(step);
  stats_.step_ns += now_ns() - begin_ns;
  ++stats_.steps;
  if (results.ok()) RETURN_IF_ERROR(check_results(*results, step, info().ranks));
  return results;
}

// What follows from one row's answers. An error means that the group is over.
absl::Status Engine::Loop::deliver(Sequence& sequence, const cluster::Step& step, int output,
                                   const Results& results) {
  if (sequence.state() == Sequence::State::kFinished) return absl::OkStatus();  // Failed just now.
  const Request& request = sequence.request();
  const cluster::Output& question = step.outputs(output);
  RankCandidates ranks;
  for (const cluster::StepResult& result : results) ranks.push_back(&result.outputs(output));
  StreamEvent event;
  if (question.want_logits()) {
    event.prompt_logits = join_logits(ranks);
    RETURN_IF_ERROR(check_logits(event.prompt_logits));
  }
  if (!sequence.draws()) {
    emit(sequence, std::move(event), sequence.finish(FinishReason::kLength));
    return absl::OkStatus();
  }
  absl::Status lost;
  const FetchLogits fetch = [&]() -> absl::StatusOr<std::vector<float>> {
    absl::StatusOr<std::vector<float>> logits = group_->logits(step.step(), output);
    lost = logits.ok() ? check_logits(*logits) : logits.status();
    if (!lost.ok()) return lost;
    return logits;
  };
  absl::StatusOr<Sampled> sampled =
      sample(request.sampling, question, request.logprobs, ranks, fetch);
  RETURN_IF_ERROR(lost);
  if (!sampled.ok()) {
    fail(jobs_.at(sequence.stream()), sampled.status());
    return absl::OkStatus();
  }
  if (sampled->id < 0 || sampled->id >= info().vocab) {
    return absl::InternalError(fmt::format("step {}: want a token id below {}, found {}",
                                           step.step(), info().vocab, sampled->id));
  }
  ++stats_.completion_tokens;
  event.token_ids = {sampled->id};
  if (request.logprobs >= 0) event.logprobs = {std::move(sampled->logprobs)};
  emit(sequence, std::move(event), sequence.append(sampled->id));
  return absl::OkStatus();
}

absl::Status Engine::Loop::check_logits(const std::vector<float>& logits) const {
  if (static_cast<int64_t>(logits.size()) == info().vocab) return absl::OkStatus();
  return absl::InternalError(
      fmt::format("logits: want {} of all ranks, found {}", info().vocab, logits.size()));
}

// ---- Requests ----

void Engine::Loop::submit(Submission submission) {
  const SequenceLimits limits = {
      .context = std::min(info().max_context, info().pages * info().page_tokens),
      .vocab = info().vocab};
  Job job = {.request = std::move(submission.request), .stream = std::move(submission.stream)};
  job.open = job.request->n;
  for (int32_t index = 0; index < job.open; ++index) {
    job.choices.push_back(
        std::make_unique<Sequence>(*job.request, index, limits, job.stream.get(), tokenizer_));
    scheduler_->add(job.choices.back().get());
  }
  ++unstarted_;
  const Stream* key = job.stream.get();
  jobs_.emplace(key, std::move(job));
}

void Engine::Loop::note_started(const Batch& batch) {
  for (const BatchItem& item : batch.items) {
    const Sequence& sequence = *item.sequence;
    const int64_t decoded = sequence.remaining() == 1 && sequence.generated_tokens() > 0 ? 1 : 0;
    stats_.prompt_tokens += item.rows - decoded;
    if (sequence.computed() > 0 || sequence.generated_tokens() > 0) continue;
    Job& job = jobs_.at(sequence.stream());
    if (!std::exchange(job.started, true)) --unstarted_;
  }
}

// Tells the reader; with a finish reason the choice's pages are free, and the last one closes the
// stream.
void Engine::Loop::emit(Sequence& sequence, StreamEvent event, const SequenceNews& news) {
  event.index = sequence.index();
  event.seed = sequence.seed();
  event.text = news.text;
  event.finish_reason = news.finish_reason;
  const bool last = news.finish_reason != FinishReason::kNone;
  if (last) {
    event.prompt_tokens = static_cast<int32_t>(sequence.prompt_tokens());
    event.completion_tokens = static_cast<int32_t>(sequence.generated_tokens());
  }
  sequence.stream()->append(std::move(event));
  if (!last) return;
  scheduler_->remove(&sequence);
  Job& job = jobs_.at(sequence.stream());
  if (--job.open == 0) close(job, job.end);
}

// The job itself goes away with sweep(): the step under way may still point to its choices.
void Engine::Loop::close(Job& job, const absl::Status& status) {
  if (!job.started) --unstarted_;
  job.stream->close(status);
  closed_.push_back(job.stream.get());
}

void Engine::Loop::cancel(Job& job, const absl::Status& status) {
  job.end = status;
  for (const std::unique_ptr<Sequence>& choice : job.choices) {
    if (choice->state() == Sequence::State::kFinished) continue;
    emit(*choice, {}, choice->finish(FinishReason::kCancelled));
  }
}

void Engine::Loop::fail(Job& job, const absl::Status& status) {
  for (const std::unique_ptr<Sequence>& choice : job.choices) {
    if (choice->state() != Sequence::State::kFinished) scheduler_->remove(choice.get());
  }
  job.open = 0;
  close(job, status);
}

void Engine::Loop::sweep() {
  for (const Stream* stream : closed_) jobs_.erase(stream);
  closed_.clear();
}

// The group is over, and with it every request: recovery will instead preempt() them all and go on
// with the next group.
void Engine::Loop::end_all(const absl::Status& over) {
  Messages rest = inbox_.close();
  for (Submission& submission : rest.submitted) submit(std::move(submission));
  const absl::Status status =
      rest.stopping ? absl::CancelledError("the server is stopping")
                    : unavailable("the group of workers was lost: {}", message_of(over));
  sweep();
  for (auto& [stream, job] : jobs_) {
    if (rest.stopping) {
      cancel(job, status);
    } else {
      fail(job, status);
    }
  }
  sweep();
  LOCKSTEP_CHECK(jobs_.empty() && unstarted_ == 0);
  LOCKSTEP_CHECK(scheduler_->pages().free() == scheduler_->pages().total());
  publish();
  scheduler_ = nullptr;
  group_ = nullptr;
}

void Engine::Loop::publish() {
  stats_.pages_free = scheduler_->pages().free();
  stats_.running = scheduler_->running();
  stats_.waiting = scheduler_->waiting();
  stats_.preemptions += scheduler_->preemptions() - preemptions_published_;
  preemptions_published_ = scheduler_->preemptions();
  inbox_.publish(stats_, unstarted_);
}

// ---- Any thread ----

Engine::Engine(Cluster* cluster, const Tokenizer* tokenizer, const EngineOptions& options)
    : loop_(std::make_unique<Loop>(cluster, tokenizer, options)) {}

Engine::~Engine() = default;

absl::StatusOr<std::shared_ptr<Stream>> Engine::submit(Request request) {
  return loop_->inbox().submit(std::move(request));
}

void Engine::cancel(const std::shared_ptr<Stream>& stream) { loop_->inbox().cancel(stream); }

EngineStats Engine::stats() const { return loop_->inbox().stats(); }

absl::Status Engine::wait_ready() { return loop_->inbox().wait_ready(); }

}  // namespace lockstep

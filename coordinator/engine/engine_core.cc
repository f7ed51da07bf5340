// SPDX-License-Identifier: Apache-2.0
// One step runs at a time: it is chosen and sent to the group, and tokens are drawn from its
// answers, one output after the other.
#include "coordinator/engine/engine_core.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "coordinator/admission/admission.h"
#include "coordinator/engine/step_results.h"
#include "proto/candidates.h"
#include "proto/logit_edits.h"

namespace lockstep {

using engine_action::AppendEvent;
using engine_action::CloseStream;
using engine_action::FetchLogits;
using engine_action::LeaveGroup;
using engine_action::NoteStarted;
using engine_action::RunStep;

EngineCore::EngineCore(const Tokenizer* tokenizer, const EngineOptions& options)
    : tokenizer_(tokenizer), options_(options) {}

// ---- Time ----

std::optional<int64_t> EngineCore::wake_at() const {
  if (!actions_.empty() || !unsent_tokens_.empty() || !unsent_scores_.empty()) return 0;
  if (options_.max_outage_ms > 0 && group_is_lost() && !lost_at_.has_value()) return 0;
  const std::optional<int64_t> end = next_end();
  if (in_flight_.has_value() || !has_group()) return end;
  if (has_work() || null_step_due_ || admit_due_) return 0;
  if (options_.idle_step_ms == 0) return end;
  const int64_t null_step = busy_at_ + options_.idle_step_ms;
  return std::min(null_step, end.value_or(null_step));
}

// When the next request ends by deadline, outage or drain.
std::optional<int64_t> EngineCore::next_end() const {
  if (!has_open_jobs()) return std::nullopt;
  std::optional<int64_t> end = drain_at_;
  const auto add = [&end](int64_t at) { end = std::min(at, end.value_or(at)); };
  if (!deadlines_.empty()) add(deadlines_.begin()->first);
  if (lost_at_.has_value() && !stats_.outage) add(*lost_at_ + options_.max_outage_ms);
  return end;
}

void EngineCore::tick(int64_t now_ms) {
  if (std::exchange(had_event_, false) || in_flight_.has_value() || has_work()) {
    busy_at_ = now_ms;
  } else if (has_group() && options_.idle_step_ms > 0 &&
             now_ms >= busy_at_ + options_.idle_step_ms) {
    null_step_due_ = true;
    busy_at_ = now_ms;
  }
  end_late(now_ms);
  if (!drain_at_.has_value() || now_ms < *drain_at_) return;
  send_events();
  const absl::Status over = absl::CancelledError("the server is stopping");
  for (Job* job : jobs_in_order()) cancel(*job, over);
}

// ---- Steps ----

std::vector<EngineAction> EngineCore::take_actions(bool trace) {
  if (!in_flight_.has_value()) {
    sweep();
    if (has_group() && std::exchange(admit_due_, false)) admit();
    if (has_work() || (has_group() && null_step_due_)) {
      run_step(trace);
      return std::exchange(actions_, {});
    }
  }
  send_events();
  return std::exchange(actions_, {});
}

void EngineCore::run_step(bool trace) {
  null_step_due_ = false;
  Batch batch = scheduler_->schedule();
  std::vector<std::shared_ptr<Stream>> started = note_started(batch);
  if (!batch.sequences.empty()) ++stats_.steps;
  in_flight_.emplace(std::move(batch), ++step_, trace);
  act<RunStep>(in_flight_->step);
  for (std::shared_ptr<Stream>& stream : started) act<NoteStarted>(std::move(stream));
}

// Counts prompt tokens. Returns the streams of the requests whose first rows are in `batch`.
std::vector<std::shared_ptr<Stream>> EngineCore::note_started(const Batch& batch) {
  std::vector<std::shared_ptr<Stream>> started;
  for (const Sequence* sequence : batch.sequences) {
    const int64_t decoded = sequence->remaining() == 1 && sequence->generated_tokens() > 0 ? 1 : 0;
    stats_.prompt_tokens += sequence->planned() - decoded;
    if (sequence->pages_sent().has_value() || sequence->generated_tokens() > 0) continue;
    Job& job = job_of(*sequence);
    if (std::exchange(job.started, true)) continue;
    started.push_back(job.stream);
  }
  return started;
}

void EngineCore::results(std::vector<cluster::StepResult> results, int64_t step_ns) {
  if (!in_flight_.has_value() || in_flight_->results != nullptr) return;
  had_event_ = true;
  absl::Status status = check_results(results, *in_flight_->step, info_);
  if (!status.ok()) return refuse_group(status);
  in_flight_->results =
      std::make_shared<const std::vector<cluster::StepResult>>(std::move(results));
  clear_computed_strikes();
  scheduler_->computed(in_flight_->batch, step_ns);
  take_scores();
  draw_rest(nullptr);
}

// Takes the scores of prompts. Log-probabilities are computed later, when events are sent.
void EngineCore::take_scores() {
  for (PromptScores& scores : in_flight_->scores) {
    if (scores.sequence->state() == Sequence::State::kFinished) continue;  // It ended meanwhile.
    scores.sequence->note_scored(scores.end);
    scores.results = in_flight_->results;
    unsent_scores_.push_back(std::move(scores));
  }
}

void EngineCore::logits(const std::vector<float>& logits) {
  if (!in_flight_.has_value() || !std::exchange(in_flight_->fetching, false)) return;
  had_event_ = true;
  draw_rest(&logits);
}

// Draws a token for each remaining output. `logits` belong to the first of them; null: not fetched.
void EngineCore::draw_rest(const std::vector<float>* logits) {
  while (in_flight_->next < in_flight_->draws.size()) {
    const StepInFlight::Draw next = in_flight_->draws[in_flight_->next];
    if (next.sequence->state() != Sequence::State::kFinished) {  // Else it ended meanwhile.
      const absl::StatusOr<bool> drawn = draw(*next.sequence, next.output, logits);
      if (!drawn.ok()) return refuse_group(drawn.status());
      in_flight_->fetching = !*drawn;
      if (in_flight_->fetching) return;
    }
    logits = nullptr;
    ++in_flight_->next;
  }
  answers_ = std::move(in_flight_->results);
  in_flight_.reset();
}

// Draws the token of one output. False: all logits of the row are needed first. An error: a rank's
// answer is invalid.
absl::StatusOr<bool> EngineCore::draw(Sequence& sequence, int output,
                                      const std::vector<float>* logits) {
  const EngineRequest& request = sequence.request();
  const cluster::Output& asked = in_flight_->step->outputs(output);
  const RankCandidates ranks = answers_to(output, *in_flight_->results);
  UnsentToken unsent{.sequence = &sequence};
  if (asked.want_logits()) {
    std::vector<std::string_view> slices;
    slices.reserve(ranks.size());
    for (const cluster::Candidates* rank : ranks) slices.push_back(rank->logits());
    unsent.event.prompt_logits = join_logits(slices);
    RETURN_IF_ERROR(check_row(unsent.event.prompt_logits, step_, info_));
  }
  bool ends = !sequence.draws();
  if (!ends) {
    if (logits != nullptr) RETURN_IF_ERROR(check_row(*logits, step_, info_));
    std::optional<Sampled> sampled;
    if (logits == nullptr) {
      sampled = sample(request.sampling, asked, request.logprobs, ranks);
      if (!sampled.has_value()) {
        act<FetchLogits>(step_, output);
        return false;
      }
    } else {
      const cluster::Output merged = with_shared_edits(*in_flight_->step, asked);
      absl::StatusOr<Sampled> drawn =
          sample_from_logits(request.sampling, merged, request.logprobs, ranks, *logits);
      if (!drawn.ok()) {
        send_events();
        fail(job_of(sequence), drawn.status());
        return true;
      }
      sampled = *std::move(drawn);
    }
    scheduler_->full_draws().note(&sequence, logits != nullptr);
    ++stats_.completion_tokens;
    unsent.event.token_ids = {sampled->id};
    if (request.logprobs >= 0) unsent.event.logprobs = {std::move(sampled->logprobs)};
    ends = sequence.append(sampled->id);
  }
  if (ends) scheduler_->remove(&sequence);
  unsent_tokens_.push_back(std::move(unsent));
  return true;
}

// ---- Requests ----

void EngineCore::submit(std::unique_ptr<Job> submitted) {
  had_event_ = true;
  if (info_.ranks == 0) {
    act<CloseStream>(submitted->stream, unavailable("there was no group of workers yet"));
    return;
  }
  const Stream* key = submitted->stream.get();
  Job& job = *jobs_.emplace(key, std::move(submitted)).first->second;
  job.number = ++submitted_;
  job.open = job.request().n;
  const int64_t context = job.context > 0 ? job.context : info_.servable_context();
  for (int32_t index = 0; index < job.open; ++index) {
    job.choices.push_back(
        std::make_unique<Sequence>(job.prepared, index, context, job.stream.get(), tokenizer_));
  }
  unscheduled_ += job.open;
  if (job.request().deadline_ms > 0) deadlines_.emplace(job.request().deadline_ms, key);
  if (has_group() && isolated_ == nullptr && fits(job)) enqueue(job);
}

void EngineCore::send_events() {
  answers_ = nullptr;
  for (const PromptScores& scores : std::exchange(unsent_scores_, {})) {
    Job& job = job_of(*scores.sequence);
    record_origin(job);
    for (StreamEvent& event : score_events(scores)) act<AppendEvent>(job.stream, std::move(event));
  }
  for (UnsentToken& unsent : std::exchange(unsent_tokens_, {})) {
    Sequence& sequence = *unsent.sequence;
    const bool drawn = !unsent.event.token_ids.empty();
    emit(sequence, std::move(unsent.event),
         drawn ? sequence.take_update() : sequence.finish(FinishReason::kLength));
  }
}

// Appends an event to the stream. If the choice has finished, its pages are already free; the last
// choice closes the stream.
void EngineCore::emit(Sequence& sequence, StreamEvent event, const SequenceUpdate& update) {
  Job& job = job_of(sequence);
  event.index = sequence.index();
  event.seed = sequence.seed();
  event.text = update.text;
  event.finish_reason = update.finish_reason;
  event.stop = update.stop;
  const bool is_first = static_cast<int64_t>(event.token_ids.size()) == sequence.generated_tokens();
  if (sequence.request().return_prompt_ids && sequence.index() == 0 && is_first) {
    event.prompt_ids = sequence.request().prompt_ids;
  }
  const bool last = update.finish_reason != FinishReason::kNone;
  if (last) {
    event.prompt_tokens = static_cast<int32_t>(sequence.prompt_tokens());
    event.completion_tokens = static_cast<int32_t>(sequence.generated_tokens());
    event.preemptions = static_cast<int32_t>(sequence.preemptions());
  }
  if (is_first || last) event.cached_tokens = static_cast<int32_t>(sequence.cached_tokens());
  record_origin(job);
  act<AppendEvent>(job.stream, std::move(event));
  if (!last) return;
  leave_scheduler(job, sequence);
  if (!job.queued) --unscheduled_;
  if (--job.open == 0) close(job, job.end);
}

// Records the group's properties: only a group that gives the same bits may continue the request.
void EngineCore::record_origin(Job& job) {
  if (!job.origin.has_value()) {
    job.origin = {info_.numeric_class, info_.weights, info_.kernels};
  }
}

// Finishes the choice. Outside the scheduler it holds no pages, so release() is enough.
void EngineCore::leave_scheduler(const Job& job, Sequence& choice) {
  if (choice.state() == Sequence::State::kFinished) return;
  job.queued ? scheduler_->remove(&choice) : choice.release();
}

// Closes the stream. sweep() deletes the job later: the running step may still point to its
// choices.
void EngineCore::close(Job& job, const absl::Status& status) {
  job.started = true;
  act<CloseStream>(job.stream, status);
  closed_.push_back(job.stream.get());
  clear_strikes(job);
  deadlines_.erase({job.request().deadline_ms, job.stream.get()});
}

void EngineCore::cancel(const Stream* stream, const absl::Status& status) {
  had_event_ = true;
  send_events();
  const auto job = jobs_.find(stream);
  if (job != jobs_.end()) cancel(*job->second, status);
}

void EngineCore::cancel(Job& job, const absl::Status& status) {
  if (job.open > 0) job.end = status;
  for (const std::unique_ptr<Sequence>& choice : job.choices) {
    if (choice->state() == Sequence::State::kFinished) continue;
    emit(*choice, {}, choice->finish(FinishReason::kCancelled));
  }
}

void EngineCore::cut_off(const Stream* stream, const absl::Status& why) {
  had_event_ = true;
  send_events();
  const auto job = jobs_.find(stream);
  if (job != jobs_.end()) fail(*job->second, why);
}

void EngineCore::end_late(int64_t now_ms) {
  if (!deadlines_.empty() && deadlines_.begin()->first <= now_ms) send_events();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now_ms) {
    cancel(*jobs_.at(deadlines_.begin()->second),
           absl::DeadlineExceededError("the request's deadline passed"));
  }
  if (!group_is_lost() || options_.max_outage_ms == 0) return;
  if (!lost_at_.has_value()) lost_at_ = now_ms;
  if (now_ms < *lost_at_ + options_.max_outage_ms) return;
  stats_.outage = true;
  send_events();
  for (Job* job : jobs_in_order()) {
    // A request with a deadline waits until its deadline.
    if (job->request().deadline_ms == 0) fail(*job, no_workers_for(options_.max_outage_ms));
  }
}

void EngineCore::reject_unstarted(const Stream* stream, const absl::Status& why) {
  const auto job = jobs_.find(stream);
  if (job != jobs_.end() && !job->second->started) cut_off(stream, why);
}

void EngineCore::fail(Job& job, const absl::Status& status) {
  if (job.open == 0) return;  // It has ended.
  for (const std::unique_ptr<Sequence>& choice : job.choices) leave_scheduler(job, *choice);
  if (!job.queued) unscheduled_ -= job.open;
  job.open = 0;
  close(job, status);
}

std::vector<Job*> EngineCore::jobs_in_order() {
  std::vector<Job*> jobs;
  for (auto& [stream, job] : jobs_) jobs.push_back(job.get());
  std::sort(jobs.begin(), jobs.end(),
            [](const Job* a, const Job* b) { return a->number < b->number; });
  return jobs;
}

void EngineCore::sweep() {
  for (const Stream* stream : closed_) jobs_.erase(stream);
  closed_.clear();
}

void EngineCore::drain(int64_t deadline_ms) { drain_at_ = deadline_ms; }

void EngineCore::stop() {
  send_events();
  const absl::Status over = absl::CancelledError("the server is stopping");
  for (Job* job : jobs_in_order()) cancel(*job, over);
  if (has_group()) forget_group();
}

Demand EngineCore::demand() const {
  if (has_work()) return Demand::kRuns;
  if (unscheduled_ == 0) return Demand::kNone;
  return has_group() && !admit_due_ ? Demand::kLarger : Demand::kRuns;
}

EngineStats EngineCore::stats() const {
  EngineStats stats = stats_;
  stats.waiting = unscheduled_;
  if (!has_group()) return stats;
  stats.pages_free = scheduler_->pages().available();
  stats.pages_cached = scheduler_->pages().cached();
  stats.prefix += scheduler_->pages().counts();
  stats.running = scheduler_->running();
  stats.waiting += scheduler_->waiting();
  stats.preemptions += scheduler_->preemptions();
  return stats;
}

// ---- Groups ----
//
// A request's sequences hold everything that decides its next token, so any later group can compute
// its tokens again and continue it. But a request may be the cause of the loss. If a group is lost
// while it computes rows that no group has computed before, the request of these rows gets a
// strike. With two strikes the request runs alone; the third one ends it. The strikes are cleared
// as soon as a group has computed these rows. Up to kMaxUncountedLosses times, a loss is no strike
// if a worker was killed from outside or became silent, or if the group was ended to grow. A kill
// is known only when the next group forms.

namespace {

constexpr int kStrikesUntilAlone = 2;
constexpr int kStrikesUntilOut = 3;
// Linux also kills workers when memory runs out, and a step may time out each time: a request that
// causes this must not be retried forever.
constexpr int kMaxUncountedLosses = 30;

}  // namespace

void EngineCore::group_formed(const GroupInfo& info) {
  LOCKSTEP_CHECK(!has_group());
  had_event_ = true;
  if (absl::Status status = check_group(info); !status.ok()) {
    act<LeaveGroup>(std::move(status));
    return;
  }
  info_ = info;
  info_.shares_prefixes = info_.shares_prefixes && options_.prefix.enabled;
  stats_.group = info_;
  stats_.outage = false;
  lost_at_.reset();
  step_ = 0;  // The last step: the null step that the group ran while it was formed.
  scheduler_ = std::make_unique<Scheduler>(SchedulerLimits{
      .rows = info_.max_rows,
      .prefill_chunk = options_.prefill_chunk,
      .running = std::min(options_.max_running, info_.max_sequences),
      .outputs = info_.max_outputs,
      .pages = info_.pages,
      .page_tokens = info_.page_tokens,
      .step_budget_ns = options_.step_budget_of(info_.numeric_class) * 1'000'000,
      .rope = info_.rope,
      .prefix = {.enabled = info_.shares_prefixes, .shared = options_.prefix.shared}});
  for (Job* job : jobs_in_order()) {
    count_strike(*job);
    if (job->open == 0 || !job->origin.has_value()) continue;
    if (!job->origin->weights.same_as(info_.weights)) {
      fail(*job, unavailable("the checkpoint was rewritten while the request ran"));
    } else if (job->origin->numeric_class != info_.numeric_class) {
      fail(*job,
           unavailable("the request ran in numeric class {}, in which no group of workers can "
                       "be formed any more; the new group computes in {}",
                       job->origin->numeric_class, info_.numeric_class));
    } else if (job->origin->kernels != info_.kernels && !is_fast_class(info_.numeric_class)) {
      fail(*job, unavailable("the request ran with kernels {} of numeric class {}, the new group "
                             "has proven kernels {}",
                             job->origin->kernels, info_.numeric_class, info_.kernels));
    }
  }
  admit_due_ = true;
}

GroupRequirements EngineCore::requirements() const {
  for (const auto& [stream, job] : jobs_) {
    if (job->open > 0 && job->origin.has_value()) {
      return {.numeric_class = job->origin->numeric_class};
    }
  }
  return {};
}

// ---- Which jobs are in the scheduler ----

// True if the job alone fits the group, whatever tokens it draws.
bool EngineCore::fits(const Job& job) const {
  return std::all_of(job.choices.begin(), job.choices.end(), [this](const auto& choice) {
    return choice->extent() <= info_.servable_context();
  });
}

void EngineCore::enqueue(Job& job) {
  std::vector<Sequence*> choices;
  for (const std::unique_ptr<Sequence>& choice : job.choices) {
    if (choice->state() != Sequence::State::kFinished) choices.push_back(choice.get());
  }
  scheduler_->add(choices);
  job.queued = true;
  unscheduled_ -= job.open;
}

void EngineCore::withdraw(Job& job) {
  for (const std::unique_ptr<Sequence>& choice : job.choices) {
    if (choice->state() != Sequence::State::kFinished) scheduler_->withdraw(choice.get());
  }
  job.queued = false;
  unscheduled_ += job.open;
}

// Decides which jobs are in the scheduler. Called while no step is running.
void EngineCore::admit() {
  send_events();  // Afterwards every open choice is unfinished.
  const std::vector<Job*> jobs = jobs_in_order();
  const auto suspect = std::find_if(jobs.begin(), jobs.end(), [this](const Job* job) {
    return job->open > 0 && job->strikes >= kStrikesUntilAlone && fits(*job);
  });
  isolated_ = suspect == jobs.end() ? nullptr : *suspect;
  for (Job* job : jobs) {
    if (isolated_ != nullptr && job != isolated_ && job->queued) withdraw(*job);
  }
  for (Job* job : jobs) {
    if (job->open == 0 || job->queued || !fits(*job)) continue;
    if (isolated_ == nullptr || job == isolated_) enqueue(*job);
  }
}

// ---- Which request caused the loss ----

void EngineCore::clear_strikes(Job& job) {
  if (std::exchange(job.strikes, 0) > 0) --suspects_;
  if (&job != isolated_) return;
  isolated_ = nullptr;
  admit_due_ = true;
}

// Clears the strikes of the jobs whose suspected rows the running step has computed.
void EngineCore::clear_computed_strikes() {
  if (suspects_ == 0) return;
  for (const Sequence* sequence : in_flight_->batch.sequences) {
    Job& job = job_of(*sequence);
    if (job.open > 0 && sequence->computed() + sequence->planned() >= job.strike_end)
      clear_strikes(job);
  }
}

// Marks the jobs whose new rows the group was computing when it was lost.
void EngineCore::find_suspects(const absl::Status& why) {
  if (!in_flight_.has_value()) return;
  if (in_flight_->results != nullptr) {  // Lost after the step, at the draw of one output.
    if (in_flight_->next == in_flight_->draws.size()) return;
    const Sequence& sequence = *in_flight_->draws[in_flight_->next].sequence;
    return mark_suspected(job_of(sequence), sequence.length() + 1, why);
  }
  // The end of each job's new rows, over all choices.
  std::map<uint64_t, std::pair<Job*, int64_t>> ends;
  for (const Sequence* sequence : in_flight_->batch.sequences) {
    const int64_t end = sequence->computed() + sequence->planned();
    if (end <= sequence->reached()) continue;
    Job& job = job_of(*sequence);
    auto& [suspected, last] = ends[job.number];
    suspected = &job;
    last = std::max(last, end);
  }
  for (const auto& [number, rows] : ends) mark_suspected(*rows.first, rows.second, why);
}

void EngineCore::mark_suspected(Job& job, int64_t end, const absl::Status& why) {
  if (job.open > 0) job.suspected = {.end = end, .why = why};
}

// Called when a group is formed. Counts a strike if the job may have caused the last group's loss.
void EngineCore::count_strike(Job& job) {
  const std::optional<SuspectedLoss> suspected = std::exchange(job.suspected, std::nullopt);
  if (!suspected.has_value() || job.open == 0) return;
  // A silent worker may have got no processor time or no network, and so may the workers of the
  // next groups. So a request can lose three groups in a row without being the cause.
  const bool may_be_chance = info_.follows_a_kill || absl::IsAborted(suspected->why) ||
                             absl::IsDeadlineExceeded(suspected->why);
  if (may_be_chance && job.uncounted_losses < kMaxUncountedLosses) {
    ++job.uncounted_losses;
    return;
  }
  if (job.strikes++ == 0) ++suspects_;
  job.strike_end = std::max(job.strike_end, suspected->end);
  if (job.strikes < kStrikesUntilOut) return;
  fail(job, absl::InternalError(
                fmt::format("{} groups of workers were lost while they computed the request up to "
                            "token {}; the last group computed only this request: {}",
                            kStrikesUntilOut, job.strike_end, message_of(suspected->why))));
}

// ---- A group is lost ----

void EngineCore::group_lost(const absl::Status& why) {
  if (!has_group()) return;
  send_events();
  find_suspects(why);
  for (Job* job : jobs_in_order()) {
    if (job->queued && job->open > 0) withdraw(*job);
  }
  ++stats_.groups_lost;
  forget_group();
}

void EngineCore::refuse_group(const absl::Status& why) {
  group_lost(why);
  act<LeaveGroup>(why);
}

void EngineCore::forget_group() {
  had_event_ = true;
  in_flight_.reset();
  // No group would answer a pending FetchLogits.
  std::erase_if(actions_, [](const EngineAction& action) {
    return std::holds_alternative<FetchLogits>(action);
  });
  null_step_due_ = false;
  isolated_ = nullptr;
  sweep();
  LOCKSTEP_CHECK(scheduler_->pages().available() == scheduler_->pages().total());
  stats_.preemptions += scheduler_->preemptions();
  stats_.prefix += scheduler_->pages().counts();
  scheduler_ = nullptr;
}

}  // namespace lockstep

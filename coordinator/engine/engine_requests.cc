// SPDX-License-Identifier: Apache-2.0
// EngineCore's requests: how they begin, what their readers get, and the ways in which they end.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "coordinator/admission/admission.h"
#include "coordinator/engine/engine_core.h"

namespace lockstep {

using engine_action::AppendEvent;
using engine_action::CloseStream;

QueueLoad load_of(const PreparedRequest& request) {
  const int64_t prompt = static_cast<int64_t>(request.request().prompt_ids.size());
  return {.requests = 1,
          .choices = request.request().n,
          .prompt_tokens = prompt,
          .bytes = request.bytes()};
}

void EngineCore::submit(Submission submission) {
  had_event_ = true;
  const Request& request = submission.request->request();
  if (info_.ranks == 0) {
    act<CloseStream>(std::move(submission.stream),
                     unavailable("there was no group of workers yet"));
    return;
  }
  Job job = {.number = ++submitted_,
             .request = std::move(submission.request),
             .stream = std::move(submission.stream),
             .open = request.n};
  const int64_t context = submission.context > 0 ? submission.context : info_.servable_context();
  for (int32_t index = 0; index < job.open; ++index) {
    job.choices.push_back(
        std::make_unique<Sequence>(*job.request, index, context, job.stream.get(), tokenizer_));
  }
  parked_ += job.open;
  const Stream* key = job.stream.get();
  if (request.deadline_ms > 0) deadlines_.emplace(request.deadline_ms, key);
  Job& kept = jobs_.emplace(key, std::move(job)).first->second;
  if (has_group() && alone_ == nullptr && fits(kept)) enqueue(kept);
}

void EngineCore::tell_all() {
  answers_ = nullptr;
  for (const PromptScores& scores : std::exchange(untold_scores_, {})) {
    Job& job = jobs_.at(scores.sequence->stream());
    note_told(job);
    for (StreamEvent& event : score_events(scores)) act<AppendEvent>(job.stream, std::move(event));
  }
  for (Untold& untold : std::exchange(untold_, {})) {
    Sequence& sequence = *untold.sequence;
    const bool drawn = !untold.event.token_ids.empty();
    emit(sequence, std::move(untold.event),
         drawn ? sequence.tell() : sequence.finish(FinishReason::kLength));
  }
}

// With a finish reason the choice's pages are free, and the last one closes the stream.
void EngineCore::emit(Sequence& sequence, StreamEvent event, const SequenceNews& news) {
  Job& job = jobs_.at(sequence.stream());
  event.index = sequence.index();
  event.seed = sequence.seed();
  event.text = news.text;
  event.finish_reason = news.finish_reason;
  event.stop = news.stop;
  const bool is_first = static_cast<int64_t>(event.token_ids.size()) == sequence.generated_tokens();
  if (sequence.request().return_prompt_ids && sequence.index() == 0 && is_first) {
    event.prompt_ids = sequence.request().prompt_ids;
  }
  const bool last = news.finish_reason != FinishReason::kNone;
  if (last) {
    event.prompt_tokens = static_cast<int32_t>(sequence.prompt_tokens());
    event.completion_tokens = static_cast<int32_t>(sequence.generated_tokens());
    event.preemptions = static_cast<int32_t>(sequence.preemptions());
  }
  if (is_first || last) event.cached_tokens = static_cast<int32_t>(sequence.cached_tokens());
  note_told(job);
  act<AppendEvent>(job.stream, std::move(event));
  if (!last) return;
  leave_scheduler(job, sequence);
  if (!job.queued) --parked_;
  if (--job.open == 0) close(job, job.end);
}

// Only a group with the same bits may go on with it.
void EngineCore::note_told(Job& job) {
  if (!job.origin.has_value()) {
    job.origin = {info_.numeric_class, info_.weights, info_.kernels};
  }
}

// It is finished. While its job is not in the scheduler, it only waits.
void EngineCore::leave_scheduler(const Job& job, Sequence& choice) {
  if (choice.state() == Sequence::State::kFinished) return;
  job.queued ? scheduler_->remove(&choice) : choice.release();
}

// The job itself goes away with sweep(): the step under way may still point to its choices.
void EngineCore::close(Job& job, const absl::Status& status) {
  job.started = true;
  act<CloseStream>(job.stream, status);
  closed_.push_back(job.stream.get());
  acquit(job);
  deadlines_.erase({job.request->request().deadline_ms, job.stream.get()});
}

void EngineCore::cancel(const Stream* stream, const absl::Status& status) {
  had_event_ = true;
  tell_all();
  const auto job = jobs_.find(stream);
  if (job != jobs_.end()) cancel(job->second, status);
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
  tell_all();
  const auto job = jobs_.find(stream);
  if (job != jobs_.end()) fail(job->second, why);
}

void EngineCore::end_late(int64_t now_ms) {
  if (!deadlines_.empty() && deadlines_.begin()->first <= now_ms) tell_all();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now_ms) {
    cancel(jobs_.at(deadlines_.begin()->second),
           absl::DeadlineExceededError("the request's deadline passed"));
  }
  if (!group_is_lost() || options_.max_outage_ms == 0) return;
  if (!lost_at_.has_value()) lost_at_ = now_ms;
  if (now_ms < *lost_at_ + options_.max_outage_ms) return;
  stats_.outage = true;
  tell_all();
  for (Job* job : jobs_in_order()) {
    // Whoever gave a deadline waits until then.
    if (job->request->request().deadline_ms == 0)
      fail(*job, no_workers_for(options_.max_outage_ms));
  }
}

void EngineCore::turn_away(const Stream* stream, const absl::Status& why) {
  const auto job = jobs_.find(stream);
  if (job != jobs_.end() && !job->second.started) cut_off(stream, why);
}

void EngineCore::fail(Job& job, const absl::Status& status) {
  if (job.open == 0) return;  // It has ended.
  for (const std::unique_ptr<Sequence>& choice : job.choices) leave_scheduler(job, *choice);
  if (!job.queued) parked_ -= job.open;
  job.open = 0;
  close(job, status);
}

std::vector<Job*> EngineCore::jobs_in_order() {
  std::vector<Job*> jobs;
  for (auto& [stream, job] : jobs_) jobs.push_back(&job);
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
  tell_all();
  const absl::Status over = absl::CancelledError("the server is stopping");
  for (Job* job : jobs_in_order()) cancel(*job, over);
  if (has_group()) forget_group();
}

Demand EngineCore::demand() const {
  if (has_work()) return Demand::kRuns;
  if (parked_ == 0) return Demand::kNone;
  return has_group() && !admit_due_ ? Demand::kLarger : Demand::kRuns;
}

EngineStats EngineCore::stats() const {
  EngineStats stats = stats_;
  stats.waiting = parked_;
  if (!has_group()) return stats;
  stats.pages_free = scheduler_->pages().available();
  stats.pages_cached = scheduler_->pages().cached();
  stats.prefix += scheduler_->pages().counts();
  stats.running = scheduler_->running();
  stats.waiting += scheduler_->waiting();
  stats.preemptions += scheduler_->preemptions();
  return stats;
}

}  // namespace lockstep

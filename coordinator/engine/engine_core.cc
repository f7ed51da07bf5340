// SPDX-License-Identifier: Apache-2.0
// One step is under way at a time: it is chosen, given to the group, and tokens are drawn from its
// answers, one output after the other.
#include "coordinator/engine/engine_core.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "coordinator/engine/step_results.h"
#include "proto/candidates.h"

namespace lockstep {

using engine_action::FetchLogits;
using engine_action::NoteStarted;
using engine_action::RunStep;

EngineCore::EngineCore(const Tokenizer* tokenizer, const EngineOptions& options)
    : tokenizer_(tokenizer), options_(options) {}

// ---- Time ----

std::optional<int64_t> EngineCore::wake_at() const {
  if (!actions_.empty() || !untold_.empty() || !untold_scores_.empty()) return 0;
  if (options_.max_outage_ms > 0 && group_is_lost() && !lost_at_.has_value()) return 0;
  const std::optional<int64_t> end = next_end();
  if (flight_.has_value() || !has_group()) return end;
  if (has_work() || null_step_due_ || admit_due_) return 0;
  if (options_.idle_step_ms == 0) return end;
  const int64_t null_step = busy_at_ + options_.idle_step_ms;
  return std::min(null_step, end.value_or(null_step));
}

// When requests end by the clock.
std::optional<int64_t> EngineCore::next_end() const {
  if (!has_open_jobs()) return std::nullopt;
  std::optional<int64_t> end = drain_at_;
  const auto add = [&end](int64_t at) { end = std::min(at, end.value_or(at)); };
  if (!deadlines_.empty()) add(deadlines_.begin()->first);
  if (lost_at_.has_value() && !stats_.outage) add(*lost_at_ + options_.max_outage_ms);
  return end;
}

void EngineCore::tick(int64_t now_ms) {
  if (std::exchange(had_event_, false) || flight_.has_value() || has_work()) {
    busy_at_ = now_ms;
  } else if (has_group() && options_.idle_step_ms > 0 &&
             now_ms >= busy_at_ + options_.idle_step_ms) {
    null_step_due_ = true;
    busy_at_ = now_ms;
  }
  end_late(now_ms);
  if (!drain_at_.has_value() || now_ms < *drain_at_) return;
  tell_all();
  const absl::Status over = absl::CancelledError("the server is stopping");
  for (Job* job : jobs_in_order()) cancel(*job, over);
}

// ---- Steps ----

std::vector<EngineAction> EngineCore::take_actions(bool trace) {
  if (!flight_.has_value()) {
    sweep();
    if (has_group() && std::exchange(admit_due_, false)) admit();
    if (has_work() || (has_group() && null_step_due_)) {
      run_step(trace);
      return std::exchange(actions_, {});
    }
  }
  tell_all();
  return std::exchange(actions_, {});
}

void EngineCore::run_step(bool trace) {
  null_step_due_ = false;
  Batch batch = scheduler_->schedule();
  std::vector<std::shared_ptr<Stream>> started = note_started(batch);
  if (!batch.items.empty()) ++stats_.steps;
  flight_.emplace(std::move(batch), ++step_, trace);
  act<RunStep>(flight_->step);
  for (std::shared_ptr<Stream>& stream : started) act<NoteStarted>(std::move(stream));
}

// Of which requests these are the first rows.
std::vector<std::shared_ptr<Stream>> EngineCore::note_started(const Batch& batch) {
  std::vector<std::shared_ptr<Stream>> started;
  for (const BatchItem& item : batch.items) {
    const Sequence& sequence = *item.sequence;
    const int64_t decoded = sequence.remaining() == 1 && sequence.generated_tokens() > 0 ? 1 : 0;
    stats_.prompt_tokens += item.rows - decoded;
    if (sequence.pages_sent().has_value() || sequence.generated_tokens() > 0) continue;
    Job& job = jobs_.at(sequence.stream());
    if (std::exchange(job.started, true)) continue;
    started.push_back(job.stream);
  }
  return started;
}

void EngineCore::results(std::vector<cluster::StepResult> results, int64_t step_ns) {
  if (!flight_.has_value() || flight_->results != nullptr) return;
  had_event_ = true;
  absl::Status status = check_results(results, *flight_->step, info_);
  if (!status.ok()) return refuse_group(status);
  flight_->results = std::make_shared<const std::vector<cluster::StepResult>>(std::move(results));
  acquit_computed();
  scheduler_->computed(flight_->batch, step_ns);
  take_scores();
  draw_rest(nullptr);
}

// What is known of prompts now. The numbers themselves are worked out when they are told.
void EngineCore::take_scores() {
  for (PromptScores& scores : flight_->scores) {
    if (scores.sequence->state() == Sequence::State::kFinished) continue;  // It ended meanwhile.
    scores.sequence->note_scored(scores.end);
    scores.results = flight_->results;
    untold_scores_.push_back(std::move(scores));
  }
}

void EngineCore::logits(const std::vector<float>& logits) {
  if (!flight_.has_value() || !std::exchange(flight_->fetching, false)) return;
  had_event_ = true;
  draw_rest(&logits);
}

// What follows for the sequences from the outputs that are left; `logits` are of the first of
// these.
void EngineCore::draw_rest(const std::vector<float>* logits) {
  while (flight_->next < flight_->draws.size()) {
    const Flight::Draw next = flight_->draws[flight_->next];
    if (next.sequence->state() != Sequence::State::kFinished) {  // Else it ended meanwhile.
      const absl::StatusOr<bool> drawn = draw(*next.sequence, next.output, logits);
      if (!drawn.ok()) return refuse_group(drawn.status());
      flight_->fetching = !*drawn;
      if (flight_->fetching) return;
    }
    logits = nullptr;
    ++flight_->next;
  }
  answers_ = std::move(flight_->results);
  flight_.reset();
}

// False: all logits of the row are wanted first. An error means that a rank answers what cannot be.
absl::StatusOr<bool> EngineCore::draw(Sequence& sequence, int output,
                                      const std::vector<float>* logits) {
  const Request& request = sequence.request();
  const cluster::Output& question = flight_->step->outputs(output);
  const RankCandidates ranks = answers_to(output, *flight_->results);
  Untold untold{.sequence = &sequence};
  if (question.want_logits()) {
    std::vector<std::string_view> slices;
    slices.reserve(ranks.size());
    for (const cluster::Candidates* rank : ranks) slices.push_back(rank->logits());
    untold.event.prompt_logits = join_logits(slices);
    RETURN_IF_ERROR(check_logits(untold.event.prompt_logits));
  }
  bool ends = !sequence.draws();
  if (!ends) {
    if (logits != nullptr) RETURN_IF_ERROR(check_logits(*logits));
    std::optional<Sampled> sampled;
    if (logits == nullptr) {
      sampled = sample(request.sampling, question, request.logprobs, ranks);
      if (!sampled.has_value()) {
        act<FetchLogits>(step_, output);
        return false;
      }
    } else {
      absl::StatusOr<Sampled> drawn =
          sample_from_logits(request.sampling, question, request.logprobs, ranks, *logits);
      if (!drawn.ok()) {
        tell_all();
        fail(jobs_.at(sequence.stream()), drawn.status());
        return true;
      }
      sampled = *std::move(drawn);
    }
    scheduler_->full_draws().note(&sequence, logits != nullptr);
    ++stats_.completion_tokens;
    untold.event.token_ids = {sampled->id};
    if (request.logprobs >= 0) untold.event.logprobs = {std::move(sampled->logprobs)};
    ends = sequence.append(sampled->id);
  }
  if (ends) scheduler_->remove(&sequence);
  untold_.push_back(std::move(untold));
  return true;
}

absl::Status EngineCore::check_logits(const std::vector<float>& logits) const {
  if (static_cast<int64_t>(logits.size()) == info_.vocab) return absl::OkStatus();
  return absl::InternalError(fmt::format("step {}: want {} logits of all ranks, found {}", step_,
                                         info_.vocab, logits.size()));
}

}  // namespace lockstep

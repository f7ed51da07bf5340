// SPDX-License-Identifier: Apache-2.0
// EngineCore's groups: how one is entered, and what becomes of requests when it is lost.
//
// All that decides a request's next token is in its sequences, so the next group goes on with it
// once it has computed its tokens again, whoever is in that group. But a request may be what the
// groups are lost for. So a group that is lost while it computes rows that were never computed
// before counts as a strike against their request, until these rows are computed. With two strikes
// a request is run alone until then; at the third one it ends. A worker that was ended from
// outside or silent is no strike, up to a number; the first is known only when the next group
// is formed.
#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/numbers/numeric_class.h"
#include "base/status.h"
#include "coordinator/engine/engine_core.h"
#include "coordinator/engine/step_results.h"

namespace lockstep {

using engine_action::FetchLogits;
using engine_action::LeaveGroup;

namespace {

constexpr int kStrikesUntilAlone = 2;
constexpr int kStrikesUntilOut = 3;
// The kernel kills as well, where memory runs out, and a step may time out each time: a request
// that causes this must not go on for ever.
constexpr int kPardons = 30;

int64_t step_budget_ms(const EngineOptions& options, const GroupInfo& info) {
  if (options.step_budget_ms >= 0) return options.step_budget_ms;
  return is_cuda_class(info.numeric_class) ? 50 : 60;
}

}  // namespace

// ---- A group comes ----

void EngineCore::group_formed(const GroupInfo& info) {
  LOCKSTEP_CHECK(!has_group());
  had_event_ = true;
  if (absl::Status status = check_group(info); !status.ok()) {
    act<LeaveGroup>(std::move(status));
    return;
  }
  info_ = info;
  stats_.group = info;
  stats_.outage = false;
  lost_at_.reset();
  step_ = 0;  // That of the null step, which it has run.
  scheduler_ = std::make_unique<Scheduler>(
      SchedulerLimits{.rows = info_.max_rows,
                      .prefill_chunk = options_.prefill_chunk,
                      .running = std::min(options_.max_running, info_.max_sequences),
                      .outputs = info_.max_outputs,
                      .pages = info_.pages,
                      .page_tokens = info_.page_tokens,
                      .step_budget_ns = step_budget_ms(options_, info_) * 1'000'000,
                      .rope = info_.rope,
                      .prefix = {.enabled = options_.prefix.enabled && info_.shares_prefixes,
                                 .shared = options_.prefix.shared}});
  for (Job* job : jobs_in_order()) {
    judge(*job);
    if (job->open == 0 || !job->origin.has_value()) continue;
    if (!job->origin->weights.same_as(info_.weights)) {
      fail(*job, unavailable("the checkpoint was rewritten while the request ran"));
    } else if (job->origin->numeric_class != info_.numeric_class) {
      fail(*job,
           unavailable("the request ran in numeric class {}, in which no group of workers can "
                       "be formed any more; the one at hand computes in {}",
                       job->origin->numeric_class, info_.numeric_class));
    } else if (job->origin->kernels != info_.kernels && !is_fast_class(info_.numeric_class)) {
      fail(*job, unavailable("the request ran with kernels {} of numeric class {}, the group at "
                             "hand has proven {}",
                             job->origin->kernels, info_.numeric_class, info_.kernels));
    }
  }
  admit_due_ = true;
}

GroupWish EngineCore::wish() const {
  for (const auto& [stream, job] : jobs_) {
    if (job.open > 0 && job.origin.has_value()) {
      return {.numeric_class = job.origin->numeric_class};
    }
  }
  return {};
}

// ---- Who is in the scheduler ----

// Alone it has room, whatever it draws.
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
  parked_ -= job.open;
}

void EngineCore::withdraw(Job& job) {
  for (const std::unique_ptr<Sequence>& choice : job.choices) {
    if (choice->state() != Sequence::State::kFinished) scheduler_->withdraw(choice.get());
  }
  job.queued = false;
  parked_ += job.open;
}

// No step is under way.
void EngineCore::admit() {
  tell_all();  // Now a choice that is open is not finished.
  const std::vector<Job*> jobs = jobs_in_order();
  const auto suspect = std::find_if(jobs.begin(), jobs.end(), [this](const Job* job) {
    return job->open > 0 && job->strikes >= kStrikesUntilAlone && fits(*job);
  });
  alone_ = suspect == jobs.end() ? nullptr : *suspect;
  for (Job* job : jobs) {
    if (alone_ != nullptr && job != alone_ && job->queued) withdraw(*job);
  }
  for (Job* job : jobs) {
    if (job->open == 0 || job->queued || !fits(*job)) continue;
    if (alone_ == nullptr || job == alone_) enqueue(*job);
  }
}

// ---- Who may be to blame ----

void EngineCore::acquit(Job& job) {
  if (std::exchange(job.strikes, 0) > 0) --struck_;
  if (&job != alone_) return;
  alone_ = nullptr;
  admit_due_ = true;
}

// The rows of the step under way were computed.
void EngineCore::acquit_computed() {
  if (struck_ == 0) return;
  for (const BatchItem& item : flight_->batch.items) {
    Job& job = jobs_.at(item.sequence->stream());
    if (job.open > 0 && item.sequence->computed() + item.rows >= job.struck_at) acquit(job);
  }
}

// The group is lost: at which rows?
void EngineCore::blame(const absl::Status& why) {
  if (!flight_.has_value()) return;
  if (flight_->results != nullptr) {  // At a question for logits, or at what it answered.
    if (flight_->next == flight_->draws.size()) return;
    const Sequence& sequence = *flight_->draws[flight_->next].sequence;
    return accuse(jobs_.at(sequence.stream()), sequence.length() + 1, why);
  }
  std::map<uint64_t, std::pair<Job*, int64_t>> ends;  // Of new rows, over all choices; in order.
  for (const BatchItem& item : flight_->batch.items) {
    const int64_t end = item.sequence->computed() + item.rows;
    if (end <= item.sequence->reached()) continue;
    Job& job = jobs_.at(item.sequence->stream());
    auto& [accused, last] = ends[job.number];
    accused = &job;
    last = std::max(last, end);
  }
  for (const auto& [number, rows] : ends) accuse(*rows.first, rows.second, why);
}

void EngineCore::accuse(Job& job, int64_t end, const absl::Status& why) {
  if (job.open > 0) job.accused = {.end = end, .why = why};
}

// A group is formed: was the one before lost at this request?
void EngineCore::judge(Job& job) {
  const std::optional<Accusation> accused = std::exchange(job.accused, std::nullopt);
  if (!accused.has_value() || job.open == 0) return;
  // A silent worker had no processor or no network, and its neighbours may have neither: that can
  // happen to the same request three times in a row.
  const bool may_be_chance = info_.follows_a_kill || absl::IsAborted(accused->why) ||
                             absl::IsDeadlineExceeded(accused->why);
  if (may_be_chance && job.pardons < kPardons) {
    ++job.pardons;
    return;
  }
  if (job.strikes++ == 0) ++struck_;
  job.struck_at = std::max(job.struck_at, accused->end);
  if (job.strikes < kStrikesUntilOut) return;
  fail(job, absl::InternalError(
                fmt::format("{} groups of workers were lost while they computed the request up to "
                            "token {}, the last one alone with it: {}",
                            kStrikesUntilOut, job.struck_at, message_of(accused->why))));
}

// ---- A group goes ----

void EngineCore::group_lost(const absl::Status& why) {
  if (!has_group()) return;
  tell_all();
  blame(why);
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
  flight_.reset();
  // Nobody would answer it.
  std::erase_if(actions_, [](const EngineAction& action) {
    return std::holds_alternative<FetchLogits>(action);
  });
  null_step_due_ = false;
  alone_ = nullptr;
  sweep();
  LOCKSTEP_CHECK(scheduler_->pages().available() == scheduler_->pages().total());
  stats_.preemptions += scheduler_->preemptions();
  stats_.prefix += scheduler_->pages().counts();
  scheduler_ = nullptr;
}

}  // namespace lockstep

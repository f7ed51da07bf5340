// SPDX-License-Identifier: Apache-2.0
// The fake kernels compute steps in two parts, with a collective between them.
#include "tests/simulation/machines/rank_work.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "tests/simulation/machines/process.h"

namespace lockstep::simulation {
namespace {

constexpr int kParts = 4;  // The parts of half a step, or of a load; each counts as progress.
constexpr int64_t kWeightBytes = 1'000;
constexpr int64_t kShortMs = 12;

std::string stamp_of(int checkpoint) { return fmt::format("checkpoint {}", checkpoint); }

}  // namespace

void RankWork::run(Work work, Done done) {
  if (work_.has_value()) host_.world.broken("two works at once");
  work_ = std::move(work);
  done_ = std::move(done);
  ++works_;
  if (!failure_.ok() && (work_->kind == Work::kStart || work_->kind == Work::kStep)) {
    return later(1, [this] { fail(); });
  }
  switch (work_->kind) {
    case Work::kCheck:
      return check();
    case Work::kLoad:
      return load();
    case Work::kPreload:
      return preload();
    case Work::kStart:
      return later(host_.world.between(0, host_.world.one_in(10) ? 400 : 3), [this] { start(); });
    case Work::kStep:
      return step();
    case Work::kLogits:
      return later(host_.world.between(0, 8), [this] { answer_logits(); });
  }
}

void RankWork::abort() {
  if (meeting_ != nullptr) {
    std::exchange(meeting_, nullptr)->withdraw(rank_);
    heartbeat_stats_.waiting = false;
  } else if (collective_ != nullptr) {
    collective_->abort();
  }
  if (work_->kind != Work::kLoad && work_->kind != Work::kPreload && work_->kind != Work::kStep) {
    return;
  }
  const int64_t time = host_.world.between(0, host_.world.one_in(3) ? 500 : 50);
  later(time, [this] { finish({.status = absl::AbortedError("the epoch is over")}); });
}

void RankWork::end() {
  if (meeting_ != nullptr) meeting_->lose(rank_);
  if (collective_ != nullptr) collective_->lose(rank_);
}

void RankWork::check_time() {
  if (meeting_ != nullptr) meeting_->check_time();
  if (heartbeat_stats_.waiting && collective_ != nullptr) collective_->check_time();
}

void RankWork::fail(absl::Status status, bool device) {
  failure_ = std::move(status);
  device_ = device;
}

void RankWork::calm() {
  if (!failed_) failure_ = absl::OkStatus();
  lie_ = Lie::kNone;
  disk_ = true;
  if (!busy()) stuck_ = false;
}

// Ends the work with the failure that a fault has set. A device that has failed stays failed.
void RankWork::fail() {
  const absl::Status why = failure_;
  failed_ = device_;
  if (!device_) failure_ = absl::OkStatus();
  finish({.status = why, .device = device_ ? why : absl::OkStatus()});
}

// Calls what() after the delay, unless the work has ended by then or the process is stuck.
void RankWork::later(int64_t delay, std::function<void()> what) {
  time_.after(delay, [this, number = works_, what = std::move(what)] {
    if (number != works_ || !work_.has_value() || stuck_) return;
    what();
  });
}

void RankWork::finish(WorkResult result) {
  ++works_;
  work_.reset();
  heartbeat_stats_.waiting = false;
  host_.progressed_at = host_.world.now();
  std::exchange(done_, nullptr)(std::move(result));
}

void RankWork::advance(int parts, int64_t each_ms, std::function<void()> part,
                       std::function<void()> then) {
  // Long work must end soon after the last fault, since the server must serve again in time.
  const int64_t left = std::max<int64_t>(host_.calm_at - host_.world.now(), kShortMs);
  later(std::min(each_ms, left),
        [this, parts, each_ms, part = std::move(part), then = std::move(then)]() mutable {
          host_.progressed_at = host_.world.now();
          part();
          if (parts == 1) return then();
          advance(parts - 1, each_ms, std::move(part), std::move(then));
        });
}

// The time of one part. Sometimes the whole takes longer than the limit for stuck workers.
int64_t RankWork::draw_ms() {
  if (host_.calm || !host_.world.one_in(60)) return host_.world.between(0, kShortMs);
  ++host_.long_works;
  return host_.world.between(host_.stuck_ms / 3, host_.stuck_ms / 2);
}

// ---- Before a group is formed ----

void RankWork::check() {
  heartbeat_stats_.load_progress = 0;
  heartbeat_stats_.bytes_loaded = 0;
  later(host_.world.between(1, 10), [this] {
    checked_ = host_.checkpoint;
    finish({.stamp = stamp_of(checked_)});
  });
}

void RankWork::load() {
  host_.on_phase(process_, Phase::kLoading);
  const cluster::Assignment& assignment = *work_->assignment;
  rank_ = assignment.program().rank();
  ranks_ = assignment.program().ranks();
  std::shared_ptr<Collective>& group = host_.groups[assignment.group()];
  if (group == nullptr) {
    group = std::make_shared<Collective>(&host_.world, assignment.program().ranks(),
                                         assignment.collective_timeout_ms());
  }
  meeting_ = group;
  heartbeat_stats_.waiting = true;
  meeting_->meet(rank_, [this, number = works_](const absl::Status& status) {
    time_.at_once([this, number, status] {
      if (number != works_ || meeting_ == nullptr) return;
      heartbeat_stats_.waiting = false;
      collective_ = std::exchange(meeting_, nullptr);
      if (!status.ok()) return finish({.status = status});
      load_or_keep();
    });
  });
}

// A preload uses neither the group's collectives nor KV pages.
void RankWork::preload() {
  host_.on_phase(process_, Phase::kPreloading);
  ++host_.preloads;
  state_.reset();
  collective_.reset();
  rank_ = work_->assignment->program().rank();
  ranks_ = work_->assignment->program().ranks();
  load_or_keep();
}

void RankWork::load_or_keep() {
  const std::string program = work_->assignment->program().SerializeAsString();
  // After a load that did not end, all weights are read again.
  if ((work_->keep || work_->reuse) && weights_.whole) {
    if (work_->assignment->reload() || weights_.checkpoint != checked_ ||
        (work_->keep && weights_.program != program)) {
      host_.world.broken("weights in memory are kept but do not fit");
    }
    if (work_->reuse) ++host_.reuses;
  }
  if (work_->keep && weights_.whole) {
    ++host_.keeps;
    return later(host_.world.between(0, 2), [this] { loaded(); });
  }
  ++host_.loads;
  weights_ = {.program = program};
  if (ranks_ < host_.fitting_ranks) {
    ++host_.too_few;
    return later(1, [this] { finish({.status = absl::ResourceExhaustedError("too few ranks")}); });
  }
  heartbeat_stats_.bytes_to_load = kWeightBytes;
  later(host_.world.between(0, 15), [this] {
    if (work_->kind == Work::kLoad) failed_loads_ = disk_ ? 0 : failed_loads_ + 1;
    if (disk_) return read_weights();
    finish({.status = absl::DataLossError("the disk cannot be read")});
  });
}

// Reads all weights from the checkpoint that the folder has now.
void RankWork::read_weights() {
  weights_.checkpoint = host_.checkpoint;
  const auto part = [this] {
    heartbeat_stats_.load_progress += kWeightBytes / kParts;
    heartbeat_stats_.bytes_loaded += kWeightBytes / kParts;
  };
  advance(kParts, host_.world.between(0, 60) + draw_ms(), part, [this] { loaded(); });
}

void RankWork::loaded() {
  if (!failure_.ok()) return fail();
  weights_.whole = true;
  WorkResult result{.stamp = stamp_of(weights_.checkpoint),
                    .bytes_loaded = heartbeat_stats_.bytes_loaded};
  if (work_->kind == Work::kPreload) {
    result.reply.mutable_preloaded()->set_weight_bytes(lie_ == Lie::kPreloaded ? -1 : kWeightBytes);
    return finish(std::move(result));
  }
  result.reply.mutable_ready()->set_contents(result.stamp);
  result.reply.mutable_ready()->set_pages(pages());
  if (host_.model.blocks > 0) {
    const bool first = rank_ == 0;  // Rank 0 has the fewest state blocks.
    result.reply.mutable_ready()->set_sequences(host_.model.blocks + (first ? 0 : rank_));
  }
  result.reply.mutable_ready()->set_weight_bytes(kWeightBytes);
  finish(std::move(result));
}

// The KV pages that this rank can have; the last rank has the fewest.
int64_t RankWork::pages() {
  if (lie_ == Lie::kNoPages) {
    lie_ = Lie::kNone;
    return 0;
  }
  const bool last = rank_ + 1 == ranks_;
  return host_.model.pages + (last ? 0 : host_.world.between(0, 5));
}

void RankWork::start() {
  FakeModel model = host_.model;
  model.ranks = ranks_;
  const bool keeps = host_.world.planted(Plant::kPagesKept) && state_.has_value();
  if (!keeps) state_.emplace(model);
  heartbeat_stats_.instructions = 0;
  if (work_->message.start().pages() != host_.model.pages) {
    host_.world.broken("a group of {} KV pages, its ranks have {}", work_->message.start().pages(),
                       host_.model.pages);
  }
  finish({});
}

// ---- Steps ----

void RankWork::step() {
  const cluster::Step& step = work_->message.step();
  host_.on_phase(process_, step.tokens_size() == 0 ? Phase::kNullStep : Phase::kStep);
  compute([this] {
    if (is_deadly(work_->message.step())) return process_.die();
    absl::StatusOr<cluster::StepResult> result = state_->run_rank(work_->message.step(), rank_);
    if (!result.ok()) return host_.world.broken("{}", message_of(result.status()));
    result_ = *std::move(result);
    heartbeat_stats_.waiting = true;
    const Collective::Place place{static_cast<int64_t>(work_->message.step().step()),
                                  weights_.checkpoint};
    collective_->enter(rank_, place, [this, number = works_](const absl::Status& status) {
      time_.at_once([this, number, status] {
        if (number != works_) return;
        heartbeat_stats_.waiting = false;
        if (!status.ok()) return finish({.status = status});
        compute([this] { answer_step(); });
      });
    });
  });
}

// Whether this rank crashes at a deadly token. Rank 0 always does, another rank sometimes.
bool RankWork::is_deadly(const cluster::Step& step) const {
  const auto& tokens = step.tokens();
  return std::find(tokens.begin(), tokens.end(), host_.model.deadly) != tokens.end() &&
         (rank_ == 0 || host_.world.one_in(3));
}

// Ranks with equal progress have completed equally many instructions. A collective counts together
// with the instructions after it, as on a device that only queues work.
void RankWork::compute(std::function<void()> then) {
  const int64_t each = draw_ms();
  const int parts = each > host_.stuck_ms / 4 ? kParts : 1;
  advance(
      parts, each, [this, parts] { heartbeat_stats_.instructions += kParts / parts; },
      std::move(then));
}

void RankWork::answer_step() {
  if (work_->message.step().trace()) trace(&*result_);
  if (lies()) give_wrong_answer(&*result_);
  WorkResult result;
  *result.reply.mutable_result() = *std::exchange(result_, std::nullopt);
  finish(std::move(result));
}

void RankWork::trace(cluster::StepResult* result) const {
  cluster::StepTrace& trace = *result->mutable_trace();
  trace.set_total_ns(10 * host_.model.instructions);
  for (int i = 0; i < host_.model.instructions; ++i) {
    trace.add_instructions(i);
    trace.add_begin_ns(10 * i);
    trace.add_duration_ns(10);
    trace.add_wait_ns(0);
  }
}

void RankWork::give_wrong_answer(cluster::StepResult* result) {
  const bool has_output = result->outputs_size() > 0;
  if (lie_ == Lie::kStep) {
    result->set_step(result->step() + 1);
  } else if (lie_ == Lie::kToken && has_output) {
    result->mutable_outputs(0)->mutable_noisy()->set_id(1 << 20);
  } else if (lie_ == Lie::kManyTokens && has_output) {
    for (int i = 0; i < 300; ++i) result->mutable_outputs(0)->mutable_top()->add_ids(i);
  } else if (lie_ == Lie::kTrace) {
    result->mutable_trace()->add_instructions(host_.model.instructions);
  } else {
    return;
  }
  lie_ = Lie::kNone;
}

void RankWork::answer_logits() {
  host_.on_phase(process_, Phase::kLogits);
  const cluster::LogitsRequest& request = work_->message.logits();
  absl::StatusOr<std::vector<float>> logits =
      state_->logits_of_rank(request.step(), request.output(), rank_);
  if (!logits.ok()) return host_.world.broken("{}", message_of(logits.status()));
  if (lie_ == Lie::kLogits) {
    logits->resize(std::min<size_t>(logits->size() + 7, host_.model.vocab));
    lie_ = Lie::kNone;
  }
  WorkResult result;
  cluster::LogitsReply& reply = *result.reply.mutable_logits();
  reply.set_step(request.step());
  reply.set_output(request.output());
  reply.set_logits(logits->data(), logits->size() * sizeof(float));
  finish(std::move(result));
}

}  // namespace lockstep::simulation

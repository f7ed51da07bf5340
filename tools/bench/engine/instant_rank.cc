// SPDX-License-Identifier: Apache-2.0
// The last answer is kept: outputs with the same requested sizes get it again.
#include "tools/bench/engine/instant_rank.h"

#include <unistd.h>

#include <cmath>
#include <stop_token>
#include <thread>

#include "base/numbers/numeric_class.h"
#include "base/status.h"
#include "base/system/clock.h"
#include "base/threads/mutex.h"
#include "operators/limits.h"
#include "proto/block_sums.h"
#include "proto/handshake.h"
#include "worker/session/grpc_link.h"

namespace lockstep::bench {
namespace {

constexpr int64_t kPages = 1 << 20;

// The rank's slice of the vocabulary, in whole blocks; the last rank's last block may be short.
struct Slice {
  int64_t begin = 0;
  int64_t end = 0;
};

Slice slice_of(const program::Program& program) {
  const int64_t blocks = (program.vocab() + kVocabBlock - 1) / kVocabBlock;
  const auto cut = [&](int64_t rank) {
    return std::min(program.vocab(), blocks * rank / program.ranks() * kVocabBlock);
  };
  return {cut(program.rank()), cut(program.rank() + 1)};
}

class InstantRank {
 public:
  InstantRank(Link& link, Timeline& timeline) : link_(link), timeline_(timeline) {}

  absl::Status run() {
    cluster::WorkerMessage hello;
    hello.mutable_hello()->set_protocol(kProtocolVersion);
    hello.mutable_hello()->set_device("cpu");
    hello.mutable_hello()->set_host("bench");
    hello.mutable_hello()->set_numeric_class(kCpuClass);
    hello.mutable_hello()->set_threads(1);
    hello.mutable_hello()->set_pid(getpid());
    hello.mutable_hello()->set_preferred_rank(-1);
    write(hello);
    std::jthread heart([this](const std::stop_token& stop) { beat(stop); });
    for (cluster::CoordinatorMessage message; link_.read(&message); message.Clear()) {
      answer(message);
    }
    return link_.finish();
  }

 private:
  void write(const cluster::WorkerMessage& message) ABSL_LOCKS_EXCLUDED(mutex_) {
    const MutexLock lock(&mutex_);
    link_.write(message);
  }

  void beat(const std::stop_token& stop) {
    for (uint64_t beats = 0; !stop.stop_requested(); ++beats) {
      cluster::WorkerMessage message;
      message.set_epoch(epoch_);
      message.mutable_heartbeat()->set_progress(beats);
      if (epoch_ > 0) write(message);
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }

  void answer(const cluster::CoordinatorMessage& message) {
    cluster::WorkerMessage reply;
    reply.set_epoch(message.epoch());
    if (message.has_assignment()) {
      const program::Program& program = message.assignment().program();
      slice_ = slice_of(program);
      rank_ = program.rank();
      epoch_ = message.epoch();
      reply.mutable_ready()->set_pages(std::min(kPages, message.assignment().max_pages()));
      reply.mutable_ready()->set_weight_bytes(1);
      reply.mutable_ready()->set_contents("bench");
      write(reply);
    } else if (message.has_step()) {
      answer_step(message.step(), reply);
    } else if (message.has_logits()) {
      reply.mutable_logits()->set_step(message.logits().step());
      reply.mutable_logits()->set_output(message.logits().output());
      reply.mutable_logits()->set_logits(
          std::string(static_cast<size_t>(slice_.end - slice_.begin) * sizeof(float), '\0'));
      write(reply);
    }
  }

  void answer_step(const cluster::Step& step, cluster::WorkerMessage& reply) {
    Timeline::Stamp& stamp = timeline_.at(rank_, step.step());
    stamp.received_ns = steady_now_ns();
    stamp.outputs = step.outputs_size();
    cluster::StepResult& result = *reply.mutable_result();
    result.set_step(step.step());
    for (const cluster::Output& output : step.outputs()) *result.add_outputs() = answer_of(output);
    std::this_thread::sleep_for(std::chrono::microseconds(timeline_.compute_us));
    write(reply);
    stamp.answered_ns = steady_now_ns();
  }

  // Returns the same answer for every output with the same requested sizes. In it, a few ids
  // together have 9/10 of the probability.
  const cluster::Candidates& answer_of(const cluster::Output& output) {
    if (made_for_.top_count() == output.top_count() &&
        made_for_.raw_top_count() == output.raw_top_count() &&
        made_for_.want_noisy() == output.want_noisy() &&
        made_for_.want_edited_sums() == output.want_edited_sums() &&
        made_for_.want_raw_sums() == output.want_raw_sums() && made_for_slice_ == slice_.end) {
      return made_;
    }
    made_for_ = output;
    made_for_slice_ = slice_.end;
    made_.Clear();
    const int64_t ids = slice_.end - slice_.begin;
    const auto logit_of = [&](int64_t i) {
      return 10.0f - 0.5f * static_cast<float>(i) - static_cast<float>(rank_);
    };
    const auto add = [&](cluster::CandidateList* list, int64_t i) {
      list->add_ids(static_cast<int32_t>(slice_.begin + i));
      list->add_logits(logit_of(i));
    };
    for (int64_t i = 0; i < std::min<int64_t>(output.top_count(), ids); ++i) {
      add(made_.mutable_top(), i);
      made_.mutable_top()->add_edited(logit_of(i));
    }
    for (int64_t i = 0; i < std::min<int64_t>(output.raw_top_count(), ids); ++i) {
      add(made_.mutable_raw_top(), i);
    }
    if (output.want_noisy() && ids > 0) {
      made_.mutable_noisy()->set_id(static_cast<int32_t>(slice_.begin));
      made_.mutable_noisy()->set_logit(logit_of(0));
      made_.mutable_noisy()->set_edited(logit_of(0));
      made_.mutable_noisy()->set_noisy(logit_of(0));
    }
    std::vector<BlockSum> sums;
    for (int64_t id = slice_.begin; id < slice_.end; id += kVocabBlock) {
      const float max = 10.0f - static_cast<float>(id - slice_.begin) - static_cast<float>(rank_);
      sums.push_back({max, 1.0f / (1.0f - std::exp(-0.5f))});
    }
    const int64_t first = slice_.begin / kVocabBlock;
    if (output.want_edited_sums()) set_sums(first, sums, made_.mutable_edited_sums());
    if (output.want_raw_sums()) set_sums(first, sums, made_.mutable_raw_sums());
    return made_;
  }

  Link& link_;
  Timeline& timeline_;
  Mutex mutex_;
  std::atomic<uint64_t> epoch_{0};
  int rank_ = 0;
  Slice slice_;
  cluster::Output made_for_;
  int64_t made_for_slice_ = -1;
  cluster::Candidates made_;
};

}  // namespace

absl::Status run_instant_rank(const std::string& coordinator, const std::string& token,
                              Timeline& timeline) {
  const std::stop_source never;
  ASSIGN_OR_RETURN(const std::unique_ptr<Link> link,
                   dial({.coordinator = coordinator, .token = token}, never.get_token()));
  return InstantRank(*link, timeline).run();
}

}  // namespace lockstep::bench

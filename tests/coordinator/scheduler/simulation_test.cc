// SPDX-License-Identifier: Apache-2.0
// Random schedules: arrivals, cancellations, little memory. Workers check every Step. Every token
// is compared with the one that its sequence would get if it ran alone.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <set>

#include "coordinator/scheduler/scheduler.h"
#include "tests/coordinator/helpers.h"
#include "tests/support/cluster/fake_group.h"

namespace lockstep {
namespace {

class Simulation {
 public:
  explicit Simulation(uint64_t seed)
      : random_(seed),
        model_(random_model()),
        workers_(model_),
        limits_(random_limits()),
        scheduler_(limits_) {
    const int64_t count = between(1, 8);
    for (int64_t i = 0; i < count; ++i) add_lives();
  }

  // Runs until all requests are served or cancelled; stops at the first failed check.
  void run() {
    // The max number of steps: each step computes at least a row of the oldest running sequence. A
    // sequence that outgrows its rotary frequencies is computed again.
    int64_t bound = 8;
    for (const Life& life : lives_) {
      const int64_t length = life.max_tokens + life.sequence->length();
      bound += (1 + std::ssize(model_.rope.lengths)) * length;
    }
    int64_t steps = 0;
    while (!all_over()) {
      arrive_or_cancel();
      if (HasFatalFailure()) return;
      if (scheduler_.running() + scheduler_.waiting() == 0) continue;
      ASSERT_LE(++steps, bound) << "no progress";
      step();
      if (HasFatalFailure()) return;
      check_pages();
    }
    EXPECT_EQ(scheduler_.pages().available(), model_.pages);
    EXPECT_EQ(scheduler_.running() + scheduler_.waiting(), 0);
  }

  int64_t preemptions() const { return scheduler_.preemptions(); }
  int64_t hits() const { return scheduler_.pages().counts().hits; }
  int64_t scores() const { return scores_; }

 private:
  // One choice of a request, from its arrival to its end.
  struct Life {
    std::shared_ptr<PreparedRequest> request;
    int32_t max_tokens = 0;
    std::unique_ptr<Sequence> sequence;
    std::vector<int32_t> tokens;  // Prompt and generated tokens.
    bool added = false;
    bool started = false;
    bool over = false;
  };

  static bool HasFatalFailure() { return testing::Test::HasFatalFailure(); }
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }

  FakeModel random_model() {
    RopeRule rope;
    if (between(0, 1) == 0) rope = {.of_prompt = between(0, 2) == 0, .lengths = {6, 14}};
    return {.ranks = 1,
            .vocab = 6,
            .pages = between(2, 12),
            .page_tokens = between(1, 4),
            .max_rows = between(1, 12),
            .max_outputs = between(1, 5),
            .max_sequences = between(1, 5),
            .max_context = 1000,
            .seed = random_(),
            .rope = rope};
  }

  SchedulerLimits random_limits() {
    return {.rows = model_.max_rows,
            .prefill_chunk = between(1, 12),
            .running = std::min(between(1, 6), model_.max_sequences),
            .outputs = model_.max_outputs,
            .pages = model_.pages,
            .page_tokens = model_.page_tokens,
            .step_budget_ns = between(0, 40) * 1'000'000,
            .rope = model_.rope,
            .prefix = {.enabled = between(0, 4) > 0, .shared = between(0, 1) == 1}};
  }

  // Makes a request of one or more choices; many prompts have the same beginning.
  void add_lives() {
    const int64_t room = model_.pages * model_.page_tokens;
    EngineRequest request;
    const int64_t prompt = between(1, std::min<int64_t>(room - 1, 14));
    for (int64_t i = 0; i < prompt; ++i) {
      const bool odd = between(0, 9) == 0;
      request.prompt_ids.push_back(static_cast<int32_t>(odd ? between(0, model_.vocab - 1) : 0));
    }
    const int64_t others = std::min({limits_.running, limits_.rows, limits_.outputs}) - 1;
    const int64_t prefix = between(0, std::min(prompt - 1, limits_.rows - others));
    request.max_tokens = static_cast<int32_t>(between(1, 14));
    request.sampling.temperature = 0;
    request.n = static_cast<int32_t>(between(0, 3) == 0 ? between(2, 4) : 1);
    request.client = between(0, 1) == 0 ? "a" : "b";
    request.priority = static_cast<int32_t>(between(0, 3) == 0 ? between(-1, 1) : 0);
    request.prompt_logprobs = static_cast<int32_t>(between(0, 2)) - 1;
    request.cache_salt = between(0, 3) == 0 ? "salt" : "";
    const bool has_prefix = between(0, 3) == 0;
    if (has_prefix) request.prompt_logprobs = -1;
    const auto prepared = std::make_shared<PreparedRequest>(
        std::move(request), model_.vocab, Prefix{.rows = has_prefix ? prefix : 0});
    for (int32_t i = 0; i < prepared->request().n; ++i) {
      Life life{.request = prepared, .max_tokens = prepared->request().max_tokens};
      life.tokens = prepared->request().prompt_ids;
      life.sequence = std::make_unique<Sequence>(*prepared, i, room, nullptr, nullptr);
      lives_.push_back(std::move(life));
    }
  }

  bool all_over() const {
    return std::all_of(lives_.begin(), lives_.end(), [](const Life& life) { return life.over; });
  }

  void arrive_or_cancel() {
    while (arrived_ < lives_.size() && between(0, 2) == 0) {
      std::vector<Sequence*> choices;
      const int32_t n = lives_[arrived_].request->request().n;
      for (int32_t i = 0; i < n; ++i) {
        choices.push_back(lives_[arrived_].sequence.get());
        lives_[arrived_++].added = true;
      }
      scheduler_.add(choices);
    }
    if (between(0, 30) > 0 || arrived_ == 0) return;
    // Cancel all choices of a request.
    const Life& one = lives_[static_cast<size_t>(between(0, static_cast<int64_t>(arrived_) - 1))];
    for (Life& life : lives_) {
      if (life.request != one.request || life.over) continue;
      scheduler_.remove(life.sequence.get());
      life.over = true;
    }
  }

  Life& life_of(const Sequence* sequence) {
    for (Life& life : lives_) {
      if (life.sequence.get() == sequence) return life;
    }
    std::abort();
  }

  void check_order(const Batch& batch) {
    const Life* first = nullptr;  // The first running life in the order of service.
    for (const Life& life : lives_) {
      if (life.over || life.sequence->state() != Sequence::State::kRunning) continue;
      if (first == nullptr || ServedBefore()(life.sequence.get(), first->sequence.get())) {
        first = &life;
      }
    }
    if (first != nullptr) {  // The first one is always served.
      ASSERT_TRUE(std::ranges::count(batch.sequences, first->sequence.get()) == 1);
    }
    for (const Sequence* sequence : batch.sequences) life_of(sequence).started = true;
    // No sequence starts before an earlier one of the same client and priority, or before its
    // request's first choice.
    std::set<std::pair<std::string, int32_t>> waits;
    for (const Life& life : lives_) {
      if (!life.added || life.over || life.sequence->index() > 0) continue;
      const EngineRequest& request = life.request->request();
      ASSERT_FALSE(life.started && waits.contains({request.client, request.priority}));
      if (!life.started) waits.insert({request.client, request.priority});
    }
  }

  void step() {
    const Batch batch = scheduler_.schedule();
    ASSERT_FALSE(batch.sequences.empty());
    check_order(batch);
    if (HasFatalFailure()) return;
    const cluster::Step step = make_step(batch, ++step_);
    const auto results = workers_.run(step);
    ASSERT_TRUE(results.ok()) << results.status();
    int output = 0;
    scheduler_.computed(batch, between(0, 50) * 1'000'000);
    for (Sequence* sequence : batch.sequences) {
      Life& life = life_of(sequence);
      const int64_t scored = sequence->scored_by(sequence->computed());
      for (int64_t at = std::max<int64_t>(sequence->scored(), 1); at < scored; ++at) {
        const auto& answer = (*results)[0].outputs(output++);
        ASSERT_EQ(answer.noisy().id(), life.tokens[static_cast<size_t>(at)]);
        const std::vector<int32_t> before(life.tokens.begin(), life.tokens.begin() + at);
        ASSERT_EQ(answer.noisy().logit(), fake_logits(model_, before)[answer.noisy().id()]);
        ++scores_;
      }
      sequence->note_scored(scored);
      if (sequence->remaining() > 0) continue;
      const std::vector<float> logits = fake_logits(model_, life.tokens);
      const auto alone = std::max_element(logits.begin(), logits.end()) - logits.begin();
      const int32_t id = (*results)[0].outputs(output++).noisy().id();
      ASSERT_EQ(id, alone);
      life.tokens.push_back(id);
      if (!sequence->append(id)) continue;
      const int64_t room = model_.pages * model_.page_tokens;
      ASSERT_EQ(sequence->length(),
                std::min<int64_t>(room, sequence->prompt_tokens() + life.max_tokens));
      scheduler_.remove(sequence);
      life.over = true;
    }
    ASSERT_EQ(output, step.outputs_size());
  }

  // Checks that each page is in the tree with any number of users, or owned by one sequence, or
  // available.
  void check_pages() {
    std::set<int32_t> shared, own;
    size_t own_count = 0;
    for (const Life& life : lives_) {
      const std::vector<int32_t>& pages = life.sequence->pages();
      ASSERT_TRUE(pages.empty() || life.sequence->state() == Sequence::State::kRunning);
      const auto border = pages.begin() + life.sequence->pages_in_tree();
      shared.insert(pages.begin(), border);
      own.insert(border, pages.end());
      own_count += static_cast<size_t>(pages.end() - border);
    }
    ASSERT_EQ(own.size(), own_count) << "two sequences own one page";
    for (const int32_t page : own) ASSERT_FALSE(shared.contains(page)) << page;
    ASSERT_EQ(static_cast<int64_t>(shared.size() + own.size()) + scheduler_.pages().available(),
              model_.pages);
  }

  std::mt19937_64 random_;
  FakeModel model_;
  FakeWorkers workers_;
  SchedulerLimits limits_;
  Scheduler scheduler_;
  std::vector<Life> lives_;
  size_t arrived_ = 0;
  uint64_t step_ = 0;
  int64_t scores_ = 0;  // The number of prompt tokens that were scored, each once.
};

// A failure names the seed of its schedule. LOCKSTEP_TEST_SEED=<seed> runs only this schedule.
TEST(ScheduleTest, RandomSchedulesKeepEveryPromise) {
  const char* only = std::getenv("LOCKSTEP_TEST_SEED");
  const uint64_t first = only != nullptr ? std::strtoull(only, nullptr, 10) : 0;
  const uint64_t count = only != nullptr ? 1 : 2'000;
  int64_t preemptions = 0;
  int64_t hits = 0;
  int64_t scores = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    Simulation simulation(seed);
    simulation.run();
    ASSERT_FALSE(HasFailure()) << "LOCKSTEP_TEST_SEED=" << seed;
    preemptions += simulation.preemptions();
    hits += simulation.hits();
    scores += simulation.scores();
  }
  EXPECT_GT(preemptions, only == nullptr ? 100 : -1);
  EXPECT_GT(hits, only == nullptr ? 1000 : -1);
  EXPECT_GT(scores, only == nullptr ? 10'000 : -1);
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// Many more requests than can be served at once: what was begun ends, and a step costs no more.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/coordinator/scheduler/bench.h"
#include "tests/support/processor_time.h"

namespace lockstep {
namespace {

constexpr int64_t kSlots = 64;

struct Load {
  std::string name;
  int32_t n = 1;        // Choices of a request.
  int64_t clients = 0;  // That send requests in turn; 0: each request is a client's only one.
  int64_t prompt_tokens = 8;
  int64_t pages = 1000;
};

// A scheduler that always has so many requests, of different lengths.
class Loaded {
 public:
  Loaded(const Load& load, size_t requests)
      : load_(load),
        requests_(requests),
        bench_({.rows = 256,
                .prefill_chunk = 128,
                .running = kSlots,
                .outputs = kSlots,
                .pages = load.pages,
                .page_tokens = 16}) {}

  // Choices of whole answers in so many steps.
  int64_t serve(int64_t steps) {
    int64_t served = 0;
    for (int64_t step = 0; step < steps; ++step) {
      while (open_.size() < requests_) come();
      bench_.step();
      served += load_.n * static_cast<int64_t>(std::erase_if(open_, is_whole));
    }
    return served;
  }

 private:
  static bool is_whole(const std::vector<Sequence*>& choices) {
    return std::ranges::all_of(choices, [](const Sequence* choice) {
      return choice->state() == Sequence::State::kFinished;
    });
  }

  void come() {
    ++came_;
    Request request = request_of(came_, load_.prompt_tokens, 20 + came_ % 40);
    request.n = load_.n;
    request.client = std::to_string(load_.clients == 0 ? came_ : came_ % load_.clients);
    open_.push_back(bench_.add(request));
  }

  const Load load_;
  const size_t requests_;
  Bench bench_;
  std::vector<std::vector<Sequence*>> open_;
  int32_t came_ = 0;
};

class OverloadTest : public ::testing::TestWithParam<Load> {};

// As many as run at once are the most that can be served.
TEST_P(OverloadTest, AsManyAnswersEndAsIfOnlyThoseWereThereThatRun) {
  const Load& load = GetParam();
  Loaded enough(load, static_cast<size_t>(kSlots / load.n));
  Loaded many(load, 1000);
  enough.serve(200);
  many.serve(200);
  const int64_t peak = enough.serve(1000);
  const int64_t served = many.serve(1000);
  EXPECT_GE(100 * served, 95 * peak) << served << " of " << peak;
}

INSTANTIATE_TEST_SUITE_P(
    Loads, OverloadTest,
    ::testing::Values(Load{.name = "OneChoice"}, Load{.name = "EightChoices", .n = 8},
                      Load{.name = "SixtyFourChoices", .n = 64},
                      Load{.name = "EightChoicesOfFourClients", .n = 8, .clients = 4},
                      Load{.name = "EightChoicesOfThirtyClients", .n = 8, .clients = 30},
                      Load{.name = "LongPrompts", .n = 8, .prompt_tokens = 100},
                      Load{.name = "LittleMemory", .n = 8, .pages = 100},
                      Load{.name = "LittleMemoryOneChoice", .pages = 60}),
    [](const auto& load) { return load.param.name; });

// What 300 steps take while so many clients wait for those that run.
double seconds_beside(int waiting) {
  Bench bench({.rows = 256,
               .prefill_chunk = 128,
               .running = kSlots,
               .outputs = kSlots,
               .pages = 2000,
               .page_tokens = 16});
  for (int client = 0; client < kSlots + waiting; ++client) {
    Request request = request_of(client, 8, 1000);
    request.client = std::to_string(client);
    bench.add(request);
  }
  for (int step = 0; step < 20; ++step) bench.step();
  const double begin = thread_seconds();
  for (int step = 0; step < 300; ++step) bench.step();
  return thread_seconds() - begin;
}

TEST(OverloadCostTest, AStepCostsWhatRunsNotWhatWaits) {
  EXPECT_LT(seconds_beside(4000), 4 * seconds_beside(40));
}

}  // namespace
}  // namespace lockstep

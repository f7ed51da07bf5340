// SPDX-License-Identifier: Apache-2.0
// Many more requests than can run at once: a new client still begins soon, the throughput does not
// fall, and steps take no longer.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/coordinator/scheduler/bench.h"
#include "tests/support/processor_time.h"

namespace lockstep {
namespace {

constexpr int64_t kSlots = 64;

struct Load {
  std::string name;
  int32_t n = 1;        // Choices per request.
  int64_t clients = 0;  // The clients send alternately; 0: each request has its own client.
  int64_t prompt_tokens = 8;
  int64_t pages = 1000;
};

// A scheduler that always has `requests` open requests of different lengths.
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

  std::vector<Sequence*> come_once(const std::string& client, int32_t n) {
    EngineRequest request = request_of(0, load_.prompt_tokens, 20);
    request.n = n;
    request.client = client;
    return bench_.add(request);
  }

  // Runs `steps` steps; returns the number of choices of the requests that ended.
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
    EngineRequest request = request_of(came_, load_.prompt_tokens, 20 + came_ % 40);
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

// The number of steps until a new client's only request has its first token, under this load.
int64_t steps_beside(Loaded& loaded, int32_t n) {
  loaded.serve(200);
  const std::vector<Sequence*> choices = loaded.come_once("new", n);
  for (int64_t steps = 1; steps < 2000; ++steps) {
    loaded.serve(1);
    if (choices[0]->generated_tokens() > 0) return steps;
  }
  return -1;
}

// A few clients with endless requests delay no other client. With many of them, a new client waits
// at most until each of them has had one request.
TEST(OverloadSharesTest, EveryClientBeginsWithinABoundedTime) {
  for (const int32_t n : {1, 8}) {
    Loaded few({.name = "", .n = 8, .clients = 3}, 100);
    EXPECT_LE(steps_beside(few, n), 3) << n;
    Loaded many({.name = "", .n = 8, .clients = 30}, 300);
    const int64_t steps = steps_beside(many, n);
    EXPECT_GT(steps, 0) << n;
    EXPECT_LE(steps, 30 * 8 * 60 / kSlots) << "one request of each of the others";
  }
}

class OverloadTest : public ::testing::TestWithParam<Load> {};

// Adding requests beyond those that run at once must not lower the throughput.
TEST_P(OverloadTest, OverloadDoesNotLowerTheThroughput) {
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

// The time that 300 steps take while this many clients wait.
double seconds_beside(int waiting) {
  Bench bench({.rows = 256,
               .prefill_chunk = 128,
               .running = kSlots,
               .outputs = kSlots,
               .pages = 2000,
               .page_tokens = 16});
  for (int client = 0; client < kSlots + waiting; ++client) {
    EngineRequest request = request_of(client, 8, 1000);
    request.client = std::to_string(client);
    bench.add(request);
  }
  for (int step = 0; step < 20; ++step) bench.step();
  const double begin = thread_seconds();
  for (int step = 0; step < 300; ++step) bench.step();
  return thread_seconds() - begin;
}

TEST(OverloadCostTest, AStepsCostDependsOnRunningNotOnWaitingSequences) {
  EXPECT_LT(seconds_beside(4000), 4 * seconds_beside(40));
}

}  // namespace
}  // namespace lockstep

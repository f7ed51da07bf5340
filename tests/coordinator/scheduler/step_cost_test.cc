// SPDX-License-Identifier: Apache-2.0
// Estimates for a machine whose step costs are known, with noise and pauses.
#include "coordinator/scheduler/step_cost.h"

#include <gtest/gtest.h>

#include <random>

namespace lockstep {
namespace {

constexpr int64_t kMs = 1'000'000;

// A step takes 80 ms, plus 3 ms per row, plus 1 ms per 10,000 keys.
struct Machine {
  double slow = 1;
  double noise = 0;  // The max deviation of a step's time, as a part of this time.
  std::mt19937 random{7};

  int64_t run(const StepWork& work) {
    const double ms =
        80 + 3.0 * static_cast<double>(work.rows) + static_cast<double>(work.keys) / 10'000;
    const double factor = 1 + noise * std::uniform_real_distribution<double>(-1, 1)(random);
    return static_cast<int64_t>(slow * ms * factor * kMs);
  }
};

StepWork decode(int64_t sequences, int64_t position) {
  StepWork work;
  for (int64_t i = 0; i < sequences; ++i) work = work.with(position, 1);
  return work;
}

void learn(StepCost& cost, Machine& machine, const StepWork& work) {
  cost.learn(work, machine.run(work));
}

void expect_near(const StepCost& cost, Machine machine, const StepWork& work, double tolerance) {
  machine.noise = 0;
  const auto real = static_cast<double>(machine.run(work));
  EXPECT_NEAR(cost.time_ns(work) / real, 1, tolerance) << work.rows << " rows, " << work.keys;
}

// Learns from steps that decode 8 sequences beside prompt chunks of several sizes.
void learn_mixed(StepCost& cost, Machine& machine, int steps) {
  for (int i = 0; i < steps; ++i) {
    learn(cost, machine, decode(8, 100 + 10 * i).with(16 * (i % 60), (i % 4) * 40));
  }
}

TEST(StepCostTest, TheCostOfRowsAndKeysIsLearnt) {
  for (const double noise : {0.0, 0.1}) {
    StepCost cost;
    Machine machine{.noise = noise};
    learn_mixed(cost, machine, 300);
    for (const int64_t rows : {0, 20, 120, 400}) {
      expect_near(cost, machine, decode(8, 3000).with(500, rows), noise == 0 ? 0.02 : 0.15);
    }
  }
}

TEST(StepCostTest, AnHourOfDecodingKeepsTheCostOfPrompts) {
  StepCost cost;
  Machine machine{.noise = 0.05};
  learn_mixed(cost, machine, 100);
  for (int i = 0; i < 20'000; ++i) learn(cost, machine, decode(8, 1000));
  expect_near(cost, machine, decode(8, 1000).with(0, 256), 0.25);
}

TEST(StepCostTest, APauseOfTheMachineChangesLittle) {
  StepCost cost;
  Machine machine{.noise = 0.02};
  learn_mixed(cost, machine, 100);
  cost.learn(decode(8, 1000), 30'000 * kMs);
  expect_near(cost, machine, decode(8, 1000), 0.15);
  expect_near(cost, machine, decode(8, 1000).with(0, 200), 0.15);
}

TEST(StepCostTest, AMachineThatBecameSlowerIsFollowed) {
  StepCost cost;
  Machine machine{.noise = 0.02};
  learn_mixed(cost, machine, 100);
  machine.slow = 3;
  learn_mixed(cost, machine, 100);
  expect_near(cost, machine, decode(8, 500).with(0, 100), 0.15);
}

TEST(StepCostTest, NoTimeIsEverNegative) {
  StepCost cost;
  std::mt19937 random(3);
  for (int i = 0; i < 20'000; ++i) {
    const StepWork work =
        decode(static_cast<int64_t>(random() % 65), static_cast<int64_t>(random() % 4000))
            .with(static_cast<int64_t>(random() % 100'000), static_cast<int64_t>(random() % 513));
    cost.learn(work, static_cast<int64_t>(random() % 100) * kMs);
    ASSERT_GE(cost.time_ns(work), 0);
    ASSERT_GE(cost.time_ns({}), 0);
    ASSERT_LT(cost.time_ns({512, 4096}), 1e12) << i;
  }
}

TEST(StepCostTest, RowsFillTheBudgetAndNoMore) {
  StepCost cost;
  Machine machine;
  learn_mixed(cost, machine, 300);
  const StepWork work = decode(8, 1000);
  const int64_t rows = cost.rows_within(200 * kMs, work, 500, 512);
  EXPECT_NEAR(static_cast<double>(rows), (200 - 80 - 24 - 0.8) / 3.05, 4);
  EXPECT_EQ(cost.rows_within(200 * kMs, work, 500, 7), 7);
  EXPECT_EQ(cost.rows_within(50 * kMs, work, 500, 512), 0);
  EXPECT_LT(cost.rows_within(200 * kMs, work, 60'000, 512), rows) << "later rows read more keys";
}

TEST(StepCostTest, NoEstimateIsUsedFarBeyondSeenSteps) {
  StepCost cost;
  EXPECT_EQ(cost.rows_within(1000 * kMs, {}, 0, 512), 0);
  cost.learn(decode(1, 5).with(0, 9), kMs);
  EXPECT_EQ(cost.rows_within(1000 * kMs, decode(1, 6), 0, 512), 19);
}

}  // namespace
}  // namespace lockstep

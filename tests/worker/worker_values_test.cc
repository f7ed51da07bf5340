// SPDX-License-Identifier: Apache-2.0
// The results of operators, which a step may request.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/status.h"
#include "proto/step_values.h"
#include "tests/support/steps.h"
#include "tests/support/tiny_program.h"
#include "worker/collectives/single.h"
#include "worker/worker.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

class WorkerValuesTest : public testing::Test {
 protected:
  WorkerValuesTest() {
    worker_ = Worker::load(random_assignment(program_), single_collective(), {}).value();
    EXPECT_EQ(message_of(worker_->start(8)), "");
  }

  // A step with the same three rows each time, which requests values of instructions [begin, end).
  cluster::Step step_for(int begin, int end) {
    cluster::Step step;
    step.set_step(++number_);
    add_rows(step, {3, 99, 42}, 0, {0});
    step.mutable_values()->set_begin(begin);
    step.mutable_values()->set_end(end);
    return step;
  }

  const program::Program program_ = layer_program();
  std::unique_ptr<Worker> worker_;
  uint64_t number_ = 0;
};

TEST_F(WorkerValuesTest, EveryValueExceptViewsIsGivenOnRequest) {
  const cluster::StepResult all = worker_->step(step_for(0, program_.instructions_size())).value();
  int next = 0;
  for (int i = 0; i < program_.instructions_size(); ++i) {
    const program::Instruction& instruction = program_.instructions(i);
    if (instruction.op() == program::COLUMNS) continue;
    int64_t bytes = 0;
    for (const int output : instruction.outputs()) {
      ASSERT_LT(next, all.values_size());
      EXPECT_EQ(all.values(next).value(), output);
      bytes += static_cast<int64_t>(all.values(next++).rows().size());
    }
    EXPECT_EQ(bytes, made_bytes(program_, i, 3, 1)) << i;
  }
  EXPECT_EQ(next, all.values_size());
}

TEST_F(WorkerValuesTest, GivenValuesAreThoseThatTheNextOperatorsRead) {
  const int count = program_.instructions_size();
  const cluster::StepResult all = worker_->step(step_for(0, count)).value();
  // The logits: the last operator reads them and returns them as an output.
  const std::string& logits = all.values(all.values_size() - 1).rows();
  EXPECT_EQ(logits, all.outputs(0).logits());
  // Requesting one instruction at a time gives the same values, although later instructions reuse
  // the memory of earlier values.
  int next = 0;
  for (int i = 0; i < count; ++i) {
    const cluster::StepResult one = worker_->step(step_for(i, i + 1)).value();
    for (const cluster::StepValue& value : one.values()) {
      EXPECT_EQ(value.SerializeAsString(), all.values(next++).SerializeAsString());
    }
  }
  EXPECT_EQ(next, all.values_size());
}

TEST_F(WorkerValuesTest, NoValuesAreGivenWithoutARequest) {
  cluster::Step step = step_for(0, 1);
  step.clear_values();
  EXPECT_EQ(worker_->step(step).value().values_size(), 0);
}

TEST_F(WorkerValuesTest, AStepThatRequestsUnknownInstructionsIsRefusedBeforeItRuns) {
  const int count = program_.instructions_size();
  for (const auto& [begin, end] : {std::pair{-1, 2}, {3, 2}, {0, count + 1}}) {
    const absl::Status status = worker_->step(step_for(begin, end)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(message_of(status), HasSubstr("values must be of instructions 0 to"));
    --number_;  // The refused step changed nothing.
  }
  EXPECT_EQ(message_of(worker_->step(step_for(0, count)).status()), "");
}

TEST(StepValuesTest, MoreBytesThanAnAnswerMayHoldAreRefused) {
  program::Program program = tiny_program();
  program.mutable_values(1)->set_cols(kMaxValueBytes / 3 / 4);
  cluster::Step step;
  for (int i = 0; i < 3; ++i) step.add_tokens(i);
  step.mutable_values()->set_begin(1);
  step.mutable_values()->set_end(2);
  EXPECT_EQ(message_of(check_values(step, program)), "");
  step.add_tokens(3);
  EXPECT_THAT(message_of(check_values(step, program)), HasSubstr("at most 33554432 bytes"));
}

}  // namespace
}  // namespace lockstep

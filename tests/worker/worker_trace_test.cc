// SPDX-License-Identifier: Apache-2.0
// The times of operators, which a step may request.
#include <gtest/gtest.h>

#include "base/status.h"
#include "tests/support/steps.h"
#include "tests/support/tiny_program.h"
#include "worker/collectives/single.h"
#include "worker/worker.h"

namespace lockstep {
namespace {

TEST(WorkerTraceTest, ATraceHasEveryOperatorThatRan) {
  const program::Program program = tiny_program();
  const auto worker = Worker::load(random_assignment(program), single_collective(), {}).value();
  ASSERT_EQ(message_of(worker->start(8)), "");
  cluster::Step step;
  step.set_step(1);
  add_rows(step, {3, 99, 42}, 0, {0});
  const cluster::StepResult plain = worker->step(step).value();
  EXPECT_FALSE(plain.has_trace());
  step.set_step(2);
  step.set_trace(true);
  const cluster::StepResult traced = worker->step(step).value();
  EXPECT_EQ(traced.outputs(0).SerializeAsString(), plain.outputs(0).SerializeAsString());
  const cluster::StepTrace& trace = traced.trace();
  ASSERT_EQ(trace.instructions_size(), program.instructions_size());
  int64_t end_ns = 0;
  for (int i = 0; i < trace.instructions_size(); ++i) {
    EXPECT_EQ(trace.instructions(i), i);
    EXPECT_GE(trace.begin_ns(i), end_ns);
    EXPECT_GE(trace.duration_ns(i), trace.wait_ns(i));
    end_ns = trace.begin_ns(i) + trace.duration_ns(i);
  }
  EXPECT_LE(end_ns, trace.total_ns());
  EXPECT_FALSE(trace.queued());
}

}  // namespace
}  // namespace lockstep

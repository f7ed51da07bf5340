// SPDX-License-Identifier: Apache-2.0
// The logits of ids that an output requests by name.
#include <gtest/gtest.h>

#include "base/status.h"
#include "proto/logit_edits.h"
#include "tests/support/steps.h"
#include "tests/support/tiny_program.h"
#include "worker/collectives/single.h"
#include "worker/worker.h"

namespace lockstep {
namespace {

TEST(RawLogitsTest, RequestedIdsHaveTheModelsUneditedLogitsInRequestOrder) {
  const auto worker = Worker::load(random_assignment(), single_collective(), {}).value();
  ASSERT_EQ(message_of(worker->start(8)), "");
  cluster::Step step;
  step.set_step(1);
  add_rows(step, {42}, 0, {0});
  cluster::Output& output = *step.mutable_outputs(0);
  const cluster::StepResult all = worker->step(step).value();
  const std::vector<float> logits = floats_of(all.outputs(0).logits());
  EXPECT_EQ(all.outputs(0).raw_logits().ids_size(), 0);

  step.set_step(2);
  output.set_want_logits(false);
  output.set_temperature(2);
  output.set_mask(std::string(16, '\1'));
  add_edit(70, 1, 50, output.mutable_edits());
  for (const int32_t id : {99, 0, 70}) output.add_raw_ids(id);
  const cluster::StepResult named = worker->step(step).value();
  EXPECT_EQ(named.outputs(0).logits(), "");
  const cluster::CandidateList& found = named.outputs(0).raw_logits();
  ASSERT_EQ(found.logits_size(), 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(found.ids(i), output.raw_ids(i));
    EXPECT_EQ(found.logits(i), logits[static_cast<size_t>(output.raw_ids(i))]);
  }
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// The edits of a sequence, token by token.
#include "coordinator/sampling/penalties.h"

#include <gtest/gtest.h>

#include "coordinator/sampling/sampler.h"
#include "tests/support/fake_group.h"

namespace lockstep {
namespace {

TEST(PenaltiesTest, EditsAscendAndAreEmptyWithoutPenalties) {
  const SamplingParams none;
  Penalties nothing(none, std::vector<int32_t>{5, 3, 5}, {}, 100);
  nothing.append(9);
  cluster::Output output;
  nothing.fill(false, &output);
  EXPECT_EQ(output.edits_size(), 0);

  const SamplingParams all = {.repetition_penalty = 2,
                              .presence_penalty = 0.5f,
                              .frequency_penalty = 0.25f,
                              .logit_bias = {{4, 1.0f}, {9, -1.0f}}};
  Penalties penalties(all, std::vector<int32_t>{5, 3, 5}, {}, 100);
  for (const int32_t id : {9, 2, 9, 3}) penalties.append(id);
  penalties.fill(false, &output);
  const auto edit_is = [&](int i, int32_t id, float repetition, float add) {
    EXPECT_EQ(output.edits(i).id(), id);
    EXPECT_EQ(output.edits(i).repetition(), repetition);
    EXPECT_EQ(output.edits(i).add(), add);
  };
  ASSERT_EQ(output.edits_size(), 5);
  edit_is(0, 2, 2, -0.75f);
  edit_is(1, 3, 2, -0.75f);
  edit_is(2, 4, 1, 1.0f);
  edit_is(3, 5, 2, 0);
  edit_is(4, 9, 2, -2.0f);
}

TEST(PenaltiesTest, ForbiddenStopsCannotWinButLeaveSumsFinite) {
  std::vector<float> logits(130);
  logits[129] = 50;
  const SamplingParams params = {.temperature = 1e-5f, .logit_bias = {}};
  const auto draw = [&](const cluster::Output& output) {
    const cluster::Candidates answer = fake_candidates(output, logits, 0, 130);
    return sample(params, output, -1, {&answer}, [] { return absl::InternalError("none"); })->id;
  };
  Penalties penalties(params, {}, std::vector<int32_t>{129, 128, 500, -3}, 130);
  cluster::Output output = plan_output(params, {.seed = 1});
  penalties.fill(true, &output);
  EXPECT_EQ(output.edits_size(), 2) << "ids out of the vocabulary are left out";
  EXPECT_LT(draw(output), 128);
  cluster::Output after = plan_output(params, {.seed = 1});
  penalties.fill(false, &after);
  EXPECT_EQ(draw(after), 129);
}

}  // namespace
}  // namespace lockstep

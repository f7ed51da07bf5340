// SPDX-License-Identifier: Apache-2.0
// The edits to a sequence's logits, token by token.
#include "coordinator/sampling/penalties.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "coordinator/sampling/sampler.h"
#include "proto/logit_edits.h"
#include "tests/support/cluster/fake_group.h"
#include "tests/support/processor_time.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;

// Fills the output with all edits of a choice, shared ones and its own.
void fill_all(const LogitRules& rules, const Penalties& penalties, bool forbid_stops,
              cluster::Output* output) {
  penalties.fill(forbid_stops, output);
  merge_shared_edits(rules.shared_edits(), output);
}

TEST(PenaltiesTest, EditsAreSortedByIdAndEmptyWithoutPenalties) {
  const SamplingParams none;
  const LogitRules no_rules(none, std::vector<int32_t>{5, 3, 5}, {}, 100);
  Penalties nothing(&no_rules);
  nothing.append(9);
  cluster::Output output;
  fill_all(no_rules, nothing, false, &output);
  EXPECT_EQ(output.edits().ids_size(), 0);

  const SamplingParams all = {.repetition_penalty = 2,
                              .presence_penalty = 0.5f,
                              .frequency_penalty = 0.25f,
                              .logit_bias = {{4, 1.0f}, {9, -1.0f}}};
  const LogitRules rules(all, std::vector<int32_t>{5, 3, 5}, {}, 100);
  Penalties penalties(&rules);
  for (const int32_t id : {9, 2, 9, 3}) penalties.append(id);
  fill_all(rules, penalties, false, &output);
  const auto edit_is = [&](int i, int32_t id, float repetition, float add) {
    EXPECT_EQ(output.edits().ids(i), id);
    EXPECT_EQ(output.edits().repetition(i), repetition);
    EXPECT_EQ(output.edits().add(i), add);
  };
  ASSERT_EQ(output.edits().ids_size(), 5);
  edit_is(0, 2, 2, -0.75f);
  edit_is(1, 3, 2, -0.75f);
  edit_is(2, 4, 1, 1.0f);
  edit_is(3, 5, 2, 0);
  edit_is(4, 9, 2, -2.0f);
}

TEST(PenaltiesTest, ForbiddenStopIdsAreNotDrawnAndLeaveSumsFinite) {
  std::vector<float> logits(130);
  logits[129] = 50;
  const SamplingParams params = {.temperature = 1e-5f, .logit_bias = {}};
  const auto draw = [&](const cluster::Output& output) {
    const cluster::Candidates answer = fake_candidates(output, logits, 0, 130);
    return sample(params, output, -1, {&answer})->id;
  };
  const LogitRules rules(params, {}, std::vector<int32_t>{129, 128, 500, -3, 128}, 130);
  Penalties penalties(&rules);
  cluster::Output output = plan_output(params, {.seed = 1});
  fill_all(rules, penalties, true, &output);
  EXPECT_EQ(output.edits().ids_size(), 2) << "ids outside the vocabulary are skipped";
  EXPECT_LT(draw(output), 128);
  cluster::Output after = plan_output(params, {.seed = 1});
  fill_all(rules, penalties, false, &after);
  EXPECT_EQ(draw(after), 129);
}

TEST(PenaltiesTest, ChoicesShareTheirRulesAndEachCountsItsOwnTokens) {
  const SamplingParams params = {.presence_penalty = 1, .logit_bias = {{7, 2.0f}}};
  const std::vector<int32_t> stops = {7, 3, 7, 3};
  const LogitRules rules(params, {}, stops, 100);
  ASSERT_EQ(rules.rules().size(), 2u) << "one rule per id";
  EXPECT_TRUE(rules.rules()[1].stop);
  EXPECT_EQ(rules.rules()[1].bias, 2.0f);
  Penalties first(&rules);
  Penalties second(&rules);
  first.append(7);
  first.append(8);
  cluster::Output of_first, of_second;
  fill_all(rules, first, false, &of_first);
  fill_all(rules, second, false, &of_second);
  EXPECT_THAT(of_first.edits().ids(), ElementsAre(7, 8));
  EXPECT_THAT(of_first.edits().add(), ElementsAre(1.0f, -1.0f));
  EXPECT_THAT(of_second.edits().ids(), ElementsAre(7));
  EXPECT_THAT(of_second.edits().add(), ElementsAre(2.0f));
}

TEST(PenaltiesTest, AChoiceSendsOnlyEditsThatDifferFromTheSharedOnes) {
  const SamplingParams params = {.repetition_penalty = 2,
                                 .presence_penalty = 1,
                                 .logit_bias = {{4, 1.0f}, {7, 2.0f}},
                                 .bad_words = {{5}, {1, 7}}};
  const LogitRules rules(params, std::vector<int32_t>{3, 4}, std::vector<int32_t>{2}, 100);
  EXPECT_THAT(rules.shared_edits().ids(), ElementsAre(3, 4, 7));
  EXPECT_THAT(rules.shared_edits().add(), ElementsAre(0.0f, 1.0f, 2.0f));
  Penalties penalties(&rules);
  const auto own_ids = [&](bool forbid_stops) {
    cluster::Output output;
    penalties.fill(forbid_stops, &output);
    return std::vector<int32_t>(output.edits().ids().begin(), output.edits().ids().end());
  };
  EXPECT_THAT(own_ids(false), ElementsAre(5)) << "the bad word of one token";
  EXPECT_THAT(own_ids(true), ElementsAre(2, 5));
  penalties.append(1);
  EXPECT_THAT(own_ids(false), ElementsAre(1, 5, 7)) << "the bad word of two tokens";
  penalties.append(4);
  EXPECT_THAT(own_ids(false), ElementsAre(1, 4, 5));
}

TEST(PenaltiesTest, AnEditWithoutEffectStillReplacesASharedOne) {
  const SamplingParams params = {.presence_penalty = 1, .logit_bias = {{4, 1.0f}}};
  const LogitRules rules(params, {}, {}, 100);
  Penalties penalties(&rules);
  penalties.append(4);
  cluster::Output output;
  fill_all(rules, penalties, false, &output);
  EXPECT_THAT(output.edits().ids(), ElementsAre(4));
  EXPECT_THAT(output.edits().add(), ElementsAre(0.0f));
}

TEST(PenaltiesTest, ABadWordsLastTokenIsForbiddenAfterItsOtherTokens) {
  const SamplingParams params = {.logit_bias = {{9, 1.0f}},
                                 .bad_words = {{5}, {1, 2, 9}, {2, 9}, {300}}};
  const LogitRules rules(params, {}, {}, 100);
  Penalties penalties(&rules);
  const auto forbidden = [&] {
    cluster::Output output;
    fill_all(rules, penalties, false, &output);
    std::vector<int32_t> ids;
    for (int i = 0; i < output.edits().ids_size(); ++i) {
      if (output.edits().add(i) < -1e20f) ids.push_back(output.edits().ids(i));
    }
    return ids;
  };
  EXPECT_EQ(forbidden(), (std::vector<int32_t>{5})) << "300 is outside the vocabulary";
  penalties.append(1);
  EXPECT_EQ(forbidden(), (std::vector<int32_t>{5}));
  penalties.append(2);
  EXPECT_EQ(forbidden(), (std::vector<int32_t>{5, 9}));
  penalties.append(3);
  EXPECT_EQ(forbidden(), (std::vector<int32_t>{5}));
  penalties.append(2);
  EXPECT_EQ(forbidden(), (std::vector<int32_t>{5, 9})) << "the shorter word";
}

TEST(PenaltiesTest, AStepChecksEachBadWordOnce) {
  // The time of 200 steps with this number of words, which all have different last ids.
  const auto cost = [](int32_t words) {
    SamplingParams params;
    for (int32_t id = 0; id < words; ++id) params.bad_words.push_back({1, 2, id});
    const LogitRules rules(params, {}, {}, 10'000);
    Penalties penalties(&rules);
    for (const int32_t id : {1, 1}) penalties.append(id);
    double best = 1e9;
    for (int i = 0; i < 3; ++i) {
      const double before = thread_seconds();
      for (int step = 0; step < 200; ++step) {
        cluster::Output output;
        penalties.fill(false, &output);
        EXPECT_EQ(output.edits().ids_size(), 0);
      }
      best = std::min(best, thread_seconds() - before);
    }
    return best;
  };
  EXPECT_LT(cost(2048), 24 * cost(256)) << "eight times as many words";
}

TEST(PenaltiesTest, EachAllowedIdIsOneBitInWordsOf64Bits) {
  const SamplingParams params = {.logit_bias = {}, .allowed_ids = {0, 9, 69, 70, -1}};
  const LogitRules rules(params, {}, {}, 70);
  cluster::Output output;
  Penalties(&rules).fill(false, &output);
  ASSERT_EQ(output.mask().size(), 16u);
  EXPECT_EQ(output.mask().substr(0, 2), std::string("\x01\x02", 2));
  EXPECT_EQ(output.mask()[8], '\x20');
  EXPECT_EQ(std::ranges::count(output.mask(), '\0'), 13);
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// Log-probabilities of ids that a request names.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "coordinator/sampling/sampler.h"
#include "tests/support/cluster/fake_group.h"

namespace lockstep {
namespace {

constexpr int64_t kVocab = 700;

std::vector<Logprob> logprobs_of(const std::vector<float>& logits, const DrawPoint& point,
                                 int ranks) {
  const SamplingParams params = {.temperature = 0, .logit_bias = {}};
  const cluster::Output output = plan_output(params, point);
  const std::vector<int64_t> cuts = fake_cuts(kVocab, ranks);
  std::vector<cluster::Candidates> answers;
  for (size_t rank = 0; rank + 1 < cuts.size(); ++rank) {
    answers.push_back(fake_candidates(output, logits, cuts[rank], cuts[rank + 1]));
  }
  RankCandidates pointers;
  for (const cluster::Candidates& answer : answers) pointers.push_back(&answer);
  return sample(params, output, point.logprobs, pointers)->logprobs;
}

TEST(LogprobIdsTest, NamedIdsKeepTheirOrderAndHaveTheBitsOfTheBestTokens) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    std::vector<float> logits = fake_logits({.vocab = kVocab, .seed = seed}, {});
    logits[650] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<Logprob> best = logprobs_of(logits, {.logprobs = 3}, 2);
    ASSERT_EQ(best.size(), 4u);
    const std::vector<int32_t> ids = {best[3].id, 650, best[1].id, best[3].id, 0};
    for (int ranks = 1; ranks <= 4; ++ranks) {
      const std::vector<Logprob> named =
          logprobs_of(logits, {.logprobs = 3, .logprob_ids = ids}, ranks);
      ASSERT_EQ(named.size(), 6u);
      EXPECT_EQ(named[0].id, best[0].id);
      EXPECT_EQ(named[0].logprob, best[0].logprob);
      for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(named[i + 1].id, ids[i]);
      EXPECT_EQ(named[1].logprob, best[3].logprob) << "bits";
      EXPECT_EQ(named[2].logprob, -std::numeric_limits<float>::infinity()) << "not a number";
      EXPECT_EQ(named[3].logprob, best[1].logprob);
      EXPECT_EQ(named[4].logprob, best[3].logprob);
      EXPECT_TRUE(std::isfinite(named[5].logprob));
    }
  }
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// Compares the nucleus with its definition: sort the tokens, then keep the first ones.
#include "coordinator/sampling/nucleus.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "base/numbers/math.h"

namespace lockstep {
namespace {

double weight(const ScoredToken& token, const ScoredToken& best) {
  return exact_exp(double{token.edited} - double{best.edited});
}

// The kept ids by definition, in ascending order.
std::vector<int32_t> kept_by_order(const SamplingParams& params, double mass,
                                   std::vector<ScoredToken> tokens) {
  std::ranges::sort(tokens, better);
  if (params.top_k > 0) {
    tokens.resize(std::min(tokens.size(), static_cast<size_t>(params.top_k)));
    mass = 0;
    for (const ScoredToken& token : tokens) mass += weight(token, tokens[0]);
  }
  std::vector<int32_t> ids;
  double sum = 0;
  for (const ScoredToken& token : tokens) {
    const double own = weight(token, tokens[0]);
    if (params.top_p < 1 && sum >= double{params.top_p} * mass) break;
    if (own < double{params.min_p}) break;
    sum += own;
    ids.push_back(token.id);
  }
  std::ranges::sort(ids);
  return ids;
}

TEST(NucleusTest, TheNucleusIsThatOfTheSortedTokens) {
  std::mt19937_64 random(20261127);
  std::normal_distribution<float> normal(0, 2);
  int undecided = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const bool has_ties = trial % 4 == 0;
    std::vector<ScoredToken> tokens(1 + random() % 3000);
    for (size_t i = 0; i < tokens.size(); ++i) {
      const float x = normal(random);
      tokens[i] = {.id = static_cast<int32_t>(i), .edited = has_ties ? std::floor(x) : x};
    }
    SamplingParams params;
    params.top_k = random() % 3 == 0 ? static_cast<int32_t>(1 + random() % 3000) : 0;
    params.top_p = static_cast<float>(random() % 1001) / 1000;
    params.min_p = random() % 2 == 0 ? 0 : static_cast<float>(random() % 1000) / 1000;
    double mass = 0;
    const ScoredToken best = *std::ranges::min_element(tokens, better);
    for (const ScoredToken& token : tokens) mass += weight(token, best);

    std::vector<ScoredToken> moved = tokens;
    const std::optional<size_t> kept = select_nucleus(params, mass, &moved);
    if (!kept.has_value()) {
      ++undecided;
      continue;
    }
    std::vector<int32_t> ids;
    for (size_t i = 0; i < *kept; ++i) ids.push_back(moved[i].id);
    std::ranges::sort(ids);
    ASSERT_EQ(ids, kept_by_order(params, mass, tokens)) << "trial " << trial;
  }
  EXPECT_LT(undecided, 20);
}

TEST(NucleusTest, IfASumIsTooNearTheBoundTheTokensMustBeSorted) {
  std::vector<ScoredToken> tokens;
  for (int32_t id = 0; id < 1000; ++id) tokens.push_back({.id = id, .edited = 1});
  EXPECT_FALSE(select_nucleus({.top_p = 0.5f, .logit_bias = {}}, 1000, &tokens).has_value());
  EXPECT_FALSE(select_nucleus({.min_p = 1, .logit_bias = {}}, 1000, &tokens).has_value());
  EXPECT_EQ(select_nucleus({.top_p = 0.5004f, .logit_bias = {}}, 1000, &tokens), 501);
}

}  // namespace
}  // namespace lockstep

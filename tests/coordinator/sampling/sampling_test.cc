// SPDX-License-Identifier: Apache-2.0
// Compares draws with their plain definition, for several splits of the vocabulary and numbers of
// candidates.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "base/numbers/math.h"
#include "coordinator/sampling/penalties.h"
#include "coordinator/sampling/sampler.h"
#include "proto/logit_edits.h"
#include "tests/support/cluster/fake_group.h"

namespace lockstep {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Trial {
  SamplingParams params;
  std::vector<int32_t> prompt;
  std::vector<int32_t> generated;
  std::vector<float> logits;
  DrawPoint point;
};

cluster::Output question(const Trial& trial, int32_t candidates = kCandidates) {
  cluster::Output output = plan_output(trial.params, trial.point, candidates);
  const auto vocab = static_cast<int64_t>(trial.logits.size());
  const LogitRules rules(trial.params, trial.prompt, {}, vocab);
  Penalties penalties(&rules);
  for (const int32_t id : trial.generated) penalties.append(id);
  penalties.fill(false, &output);
  merge_shared_edits(rules.shared_edits(), &output);
  return output;
}

absl::StatusOr<Sampled> draw(const Trial& trial, const cluster::Output& output, int ranks,
                             int* fetches = nullptr) {
  const int64_t vocab = static_cast<int64_t>(trial.logits.size());
  const std::vector<int64_t> cuts = fake_cuts(vocab, ranks);
  std::vector<cluster::Candidates> answers;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto index = static_cast<size_t>(rank);
    answers.push_back(fake_candidates(output, trial.logits, cuts[index], cuts[index + 1]));
  }
  RankCandidates pointers;
  for (const cluster::Candidates& answer : answers) pointers.push_back(&answer);
  std::optional<Sampled> drawn = sample(trial.params, output, trial.point.logprobs, pointers);
  if (drawn.has_value()) return *std::move(drawn);
  if (fetches != nullptr) ++*fetches;
  return sample_from_logits(trial.params, output, trial.point.logprobs, pointers, trial.logits);
}

// The edited logits by definition.
std::vector<float> edit(const Trial& trial) {
  std::vector<float> edited = trial.logits;
  for (size_t id = 0; id < edited.size(); ++id) {
    const auto wanted = static_cast<int32_t>(id);
    const auto count = std::count(trial.generated.begin(), trial.generated.end(), wanted);
    const bool seen = count > 0 || std::count(trial.prompt.begin(), trial.prompt.end(), wanted) > 0;
    const SamplingParams& p = trial.params;
    float& x = edited[id];
    if (seen) x = x > 0 ? x / p.repetition_penalty : x * p.repetition_penalty;
    const auto bias = p.logit_bias.find(wanted);
    double add = bias == p.logit_bias.end() ? 0 : bias->second;
    if (count > 0) add -= p.presence_penalty;
    add -= static_cast<double>(p.frequency_penalty) * static_cast<double>(count);
    x += static_cast<float>(add);
    std::vector<int32_t> written = trial.generated;
    written.push_back(wanted);
    for (const std::vector<int32_t>& word : p.bad_words) {
      if (std::equal(word.rbegin(), word.rend(), written.rbegin())) x = -1e30f;
    }
    if (!p.allowed_ids.empty() && std::ranges::count(p.allowed_ids, wanted) == 0) x = -kInf;
  }
  return edited;
}

// The kept ids by definition, best first: sort, softmax, keep the first.
std::vector<int32_t> kept(const SamplingParams& params, const std::vector<float>& values) {
  std::vector<int32_t> ids(values.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto value = [&](int32_t id) { return values[static_cast<size_t>(id)]; };
  std::erase_if(ids, [&](int32_t id) { return value(id) == -kInf; });
  std::stable_sort(ids.begin(), ids.end(),
                   [&](int32_t a, int32_t b) { return value(a) > value(b); });
  if (params.top_k > 0) ids.resize(std::min(ids.size(), static_cast<size_t>(params.top_k)));
  const auto weight = [&](int32_t id) { return std::exp(double{value(id)} - value(ids[0])); };
  double mass = 0;
  for (const int32_t id : ids) mass += weight(id);
  double before = 0;
  size_t count = 0;
  for (; count < ids.size(); ++count) {
    if (count > 0 && params.top_p < 1 && before >= params.top_p * mass) break;
    if (count > 0 && weight(ids[count]) < params.min_p) break;
    before += weight(ids[count]);
  }
  ids.resize(count);
  return ids;
}

int32_t naive_draw(const Trial& trial) {
  std::vector<float> values = edit(trial);
  if (trial.params.temperature == 0) {
    return static_cast<int32_t>(std::max_element(values.begin(), values.end()) - values.begin());
  }
  for (float& x : values) x /= trial.params.temperature;
  std::vector<int32_t> ids = kept(trial.params, values);
  std::sort(ids.begin(), ids.end());
  int32_t best = -1;
  float max = -kInf;
  for (const int32_t id : ids) {
    const float noisy =
        values[static_cast<size_t>(id)] + gumbel_noise(trial.point.seed, trial.point.position, id);
    if (noisy > max) {
      max = noisy;
      best = id;
    }
  }
  return best;
}

Trial random_trial(uint64_t seed, int64_t vocab) {
  std::mt19937_64 random(seed);
  const auto pick = [&](auto... values) {
    const double options[] = {static_cast<double>(values)...};
    return options[random() % sizeof...(values)];
  };
  Trial trial;
  trial.logits = fake_logits({.vocab = vocab, .seed = seed}, {});
  if (random() % 4 == 0) {  // Makes many ties.
    for (float& x : trial.logits) x = std::floor(x);
  }
  if (random() % 3 == 0) {
    for (float& x : trial.logits) x *= 4;  // Makes a few tokens much more probable.
  }
  SamplingParams& params = trial.params;
  params.temperature = static_cast<float>(pick(0, 0.5, 1, 1, 1.7, 20));
  params.top_k = static_cast<int32_t>(pick(0, 0, 0, 1, 3, 50, 64, 65, 256, 300, 5000));
  params.top_p = static_cast<float>(pick(1, 1, 0.95, 0.9, 0.5, 0.01, 0.9999, 0));
  params.min_p = static_cast<float>(pick(0, 0, 0, 0.05, 0.5, 1, 1e-4));
  params.repetition_penalty = static_cast<float>(pick(1, 1, 1.2, 0.8));
  params.presence_penalty = static_cast<float>(pick(0, 0, 0.5, -0.5));
  params.frequency_penalty = static_cast<float>(pick(0, 0, 0.3, -0.2));
  for (int i = 0; i < 20; ++i) {
    trial.prompt.push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(vocab)));
    trial.generated.push_back(static_cast<int32_t>(random() % 10));
  }
  if (random() % 3 == 0) params.logit_bias = {{1, 5.0f}, {7, -100.0f}, {100, 2.5f}};
  if (random() % 4 == 0) {
    params.allowed_ids.resize(30);
    for (int32_t& id : params.allowed_ids) id = static_cast<int32_t>(random() % 700);
  }
  const int32_t last = trial.generated[19];
  if (random() % 3 == 0) params.bad_words = {{0}, {last, 7}, {last, 8}, {last, 9}};
  trial.point = {
      .seed = random(), .position = static_cast<int64_t>(random() % 4096), .logprobs = 3};
  return trial;
}

TEST(SamplingTest, ADrawMatchesTheDefinitionForAnyShardsAndCandidates) {
  int fetches = 0;
  int draws = 0;
  for (uint64_t seed = 0; seed < 250; ++seed) {
    const Trial trial = random_trial(seed, 700);
    const int32_t expected = naive_draw(trial);
    std::vector<Logprob> logprobs;
    for (int ranks = 1; ranks <= 7; ++ranks) {
      for (const int32_t candidates : {1, 2, 7, 64}) {
        ++draws;
        const absl::StatusOr<Sampled> sampled =
            draw(trial, question(trial, candidates), ranks, &fetches);
        ASSERT_TRUE(sampled.ok()) << sampled.status();
        ASSERT_EQ(sampled->id, expected)
            << "seed " << seed << ", ranks " << ranks << ", candidates " << candidates;
        ASSERT_EQ(sampled->logprobs.size(), 4u);
        if (logprobs.empty()) logprobs = sampled->logprobs;
        for (size_t i = 0; i < 4; ++i) {
          ASSERT_EQ(sampled->logprobs[i].id, logprobs[i].id);
          ASSERT_EQ(sampled->logprobs[i].logprob, logprobs[i].logprob) << "bits";
        }
      }
    }
  }
  EXPECT_GT(fetches, draws / 100) << "the test must cover both ways";
  EXPECT_LT(fetches, draws / 3);
}

TEST(SamplingTest, AllLogitsGiveTheSameDrawAsTheCandidates) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Trial trial = random_trial(seed, 700);
    const cluster::Output whole = question(trial);
    cluster::Output few = whole;  // One candidate per rank, and no hint of the overall winner.
    if (few.top_count() > 1) few.set_top_count(1);
    if (few.top_count() == 1) few.set_want_noisy(false);
    for (int ranks = 1; ranks <= 7; ++ranks) {
      ASSERT_EQ(draw(trial, few, ranks)->id, draw(trial, whole, 3)->id) << "seed " << seed;
    }
  }
}

TEST(SamplingTest, FewDrawsNeedAllLogits) {
  int fetches = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Trial trial = random_trial(seed, 4000);
    for (float& x : trial.logits) x *= 2;
    trial.params = {.temperature = 1, .top_p = 0.95f, .logit_bias = {}};
    ASSERT_TRUE(draw(trial, question(trial), 2, &fetches).ok());
  }
  EXPECT_LT(fetches, 60);
}

// Compares draws with the expected distribution by the chi-squared statistic: the sum of (seen -
// expected)^2 / expected over the kept tokens. Rare tokens are counted together.
void expect_distribution(const Trial& trial) {
  std::vector<float> values = edit(trial);
  for (float& x : values) x /= trial.params.temperature;
  const std::vector<int32_t> ids = kept(trial.params, values);
  std::vector<double> expected(values.size());
  double mass = 0;
  for (const int32_t id : ids) mass += std::exp(double{values[static_cast<size_t>(id)]});
  for (const int32_t id : ids) {
    expected[static_cast<size_t>(id)] = std::exp(double{values[static_cast<size_t>(id)]}) / mass;
  }
  constexpr int kDraws = 10'000;
  std::vector<int> seen(values.size());
  Trial each = trial;
  for (int i = 0; i < kDraws; ++i) {
    each.point.seed = static_cast<uint64_t>(i) * 7919 + 13;
    each.point.position = i % 50;
    ++seen[static_cast<size_t>(draw(each, question(each), 2)->id)];
  }
  double chi = 0, rare_expected = 0;
  int degrees = -1, rare_seen = 0;
  for (size_t id = 0; id < seen.size(); ++id) {
    const double want = expected[id] * kDraws;
    if (expected[id] == 0) {
      ASSERT_EQ(seen[id], 0) << "token " << id << " was not kept";
    } else if (want < 10) {
      rare_expected += want;
      rare_seen += seen[id];
    } else {
      chi += (seen[id] - want) * (seen[id] - want) / want;
      ++degrees;
    }
  }
  if (rare_expected >= 10) {
    chi += (rare_seen - rare_expected) * (rare_seen - rare_expected) / rare_expected;
    ++degrees;
  }
  EXPECT_LT(chi, degrees + 4 * std::sqrt(2.0 * std::max(degrees, 1))) << degrees << " degrees";
}

TEST(SamplingTest, DrawsFollowTheExpectedProbabilities) {
  Trial trial;
  trial.logits = fake_logits({.vocab = 130, .seed = 5}, {});
  expect_distribution(trial);
  trial.params.temperature = 0.6f;
  expect_distribution(trial);
  trial.params.top_k = 20;
  expect_distribution(trial);
  trial.params.top_p = 0.8f;
  expect_distribution(trial);
  trial.params = {.temperature = 1.3f, .top_p = 0.9f, .logit_bias = {}};
  expect_distribution(trial);
  trial.params = {.min_p = 0.1f, .logit_bias = {{3, 4.0f}}};
  expect_distribution(trial);
}

TEST(SamplingTest, EachFilterKeepsAtLeastTheBestToken) {
  Trial trial;
  trial.logits = fake_logits({.vocab = 200, .seed = 8}, {});
  const int32_t best = static_cast<int32_t>(
      std::max_element(trial.logits.begin(), trial.logits.end()) - trial.logits.begin());
  for (const SamplingParams& params :
       {SamplingParams{.top_k = 1, .logit_bias = {}},
        SamplingParams{.top_p = 1e-9f, .logit_bias = {}},
        SamplingParams{.top_p = 0, .logit_bias = {}}, SamplingParams{.min_p = 1, .logit_bias = {}},
        SamplingParams{.temperature = 0, .logit_bias = {}},
        SamplingParams{.temperature = 1e-38f, .logit_bias = {}}}) {
    trial.params = params;
    EXPECT_EQ(draw(trial, question(trial), 2)->id, best);
  }
}

TEST(SamplingTest, TiesGoToTheLowestIdAcrossRanks) {
  Trial trial;
  trial.logits.assign(300, 1.5f);
  for (int ranks = 1; ranks <= 5; ++ranks) {
    trial.params.temperature = 0;
    EXPECT_EQ(draw(trial, question(trial), ranks)->id, 0);
    trial.params = {.temperature = 1, .top_k = 1, .logit_bias = {}};
    EXPECT_EQ(draw(trial, question(trial), ranks)->id, 0);
  }
}

TEST(SamplingTest, NanAndMinusInfinityNeverWinOverNumbers) {
  for (const float bad : {kNan, -kInf}) {
    Trial trial;
    trial.logits.assign(200, bad);
    trial.logits[77] = -3;
    trial.point.logprobs = 2;
    for (const SamplingParams& params :
         {SamplingParams{.temperature = 0, .logit_bias = {}}, SamplingParams{.logit_bias = {}},
          SamplingParams{.top_k = 5, .top_p = 0.5f, .logit_bias = {}},
          SamplingParams{.top_p = 0.9f, .logit_bias = {}},
          SamplingParams{.top_k = 1000, .min_p = 0.1f, .logit_bias = {}}}) {
      trial.params = params;
      for (int ranks = 1; ranks <= 4; ++ranks) {
        const absl::StatusOr<Sampled> sampled = draw(trial, question(trial), ranks);
        ASSERT_TRUE(sampled.ok()) << sampled.status();
        EXPECT_EQ(sampled->id, 77);
        EXPECT_EQ(sampled->logprobs[0].logprob, 0);
      }
    }
  }
}

TEST(SamplingTest, ARowWithoutAnyNumberIsAnErrorThatNamesThePosition) {
  Trial trial;
  trial.logits.assign(100, kNan);
  trial.point.position = 41;
  const absl::Status status = draw(trial, question(trial), 2).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("position 41"));
}

TEST(SamplingTest, AnInfiniteLogitWins) {
  Trial trial;
  trial.logits.assign(200, 1);
  trial.logits[150] = kInf;
  for (const SamplingParams& params :
       {SamplingParams{.temperature = 0, .logit_bias = {}}, SamplingParams{.logit_bias = {}},
        SamplingParams{.top_p = 0.9f, .logit_bias = {}},
        SamplingParams{.top_k = 9, .top_p = 0.9f, .min_p = 0.1f, .logit_bias = {}}}) {
    trial.params = params;
    EXPECT_EQ(draw(trial, question(trial), 3)->id, 150);
  }
}

TEST(SamplingTest, LogprobsAreOfTheModelsOwnDistributionWhichSumsToOne) {
  Trial trial = random_trial(3, 300);
  trial.point.logprobs = 300;
  trial.params = {.temperature = 0.3f, .repetition_penalty = 1.9f, .logit_bias = {{12, 50.0f}}};
  const absl::StatusOr<Sampled> sampled = draw(trial, question(trial), 3);
  EXPECT_EQ(sampled->id, 12) << "the bias decides";
  double sum = 0;
  for (size_t i = 1; i < sampled->logprobs.size(); ++i) {
    sum += std::exp(sampled->logprobs[i].logprob);
    if (i > 1) {
      EXPECT_GE(sampled->logprobs[i - 1].logprob, sampled->logprobs[i].logprob);
    }
    if (sampled->logprobs[i].id == 12) {
      EXPECT_EQ(sampled->logprobs[i].logprob, sampled->logprobs[0].logprob);
    }
  }
  EXPECT_EQ(sampled->logprobs.size(), 301u);
  EXPECT_NEAR(sum, 1, 1e-5);
}

TEST(SamplingTest, LogprobsComeOnlyOnRequest) {
  Trial trial = random_trial(3, 300);
  trial.point.logprobs = -1;
  EXPECT_TRUE(draw(trial, question(trial), 2)->logprobs.empty());
  trial.point.logprobs = 0;
  EXPECT_EQ(draw(trial, question(trial), 2)->logprobs.size(), 1u) << "the chosen token's";
}

TEST(SamplingTest, AMaskedTokenIsNeverDrawn) {
  Trial trial;
  trial.logits = fake_logits({.vocab = 128, .seed = 4}, {});
  trial.params = {.top_p = 0.9f, .logit_bias = {}};
  cluster::Output output = question(trial, 1);
  std::string mask(16, '\0');
  mask[5] = 0x12;  // Ids 41 and 44.
  output.set_mask(mask);
  int fetches = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    output.set_seed(seed);
    EXPECT_THAT(draw(trial, output, 2, &fetches)->id, testing::AnyOf(41, 44));
  }
  EXPECT_GT(fetches, 0);
}

TEST(SamplingTest, ADrawThatCandidatesDoNotSettleWaitsForAllLogits) {
  Trial trial;
  trial.logits.assign(500, 0);
  trial.params = {.top_k = 400, .top_p = 0.9f, .logit_bias = {}};
  const cluster::Output output = question(trial);
  const cluster::Candidates answer = fake_candidates(output, trial.logits, 0, 500);
  EXPECT_FALSE(sample(trial.params, output, -1, {&answer}).has_value());
  EXPECT_TRUE(sample_from_logits(trial.params, output, -1, {&answer}, trial.logits).ok());
}

}  // namespace
}  // namespace lockstep

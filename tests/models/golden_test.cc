// SPDX-License-Identifier: Apache-2.0
// The naive interpreter runs the graph of each golden's model. The results are compared with the
// reference's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/status.h"
#include "models/models.h"
#include "proto/sequence_rules.h"
#include "tests/support/files/test_data.h"
#include "tests/support/goldens/golden_case.h"
#include "tests/support/goldens/golden_names.h"

namespace lockstep {
namespace {

constexpr double kTolerance = 2e-4;  // Relative to the largest logit, as in tools/golden_check.py.
constexpr size_t kGreedyTokens = 16;

class GoldenTest : public testing::TestWithParam<const char*> {};

TEST_P(GoldenTest, AModelsGraphGivesTheReferencesLogitsAndGreedyTokens) {
  LOCKSTEP_NEEDS_TEST_DATA(GetParam());
  const GoldenCase golden = load_golden_case(GetParam());
  const absl::StatusOr<ModelDescription> model = describe_model(golden.folder, {}, 0);
  ASSERT_TRUE(model.ok()) << message_of(model.status());
  for (const GoldenPrompt& prompt : golden.prompts) {
    const absl::StatusOr<Prefix> prefix = prefix_rule(model->graph.sequence_rules).find(prompt.ids);
    ASSERT_TRUE(prefix.ok()) << message_of(prefix.status());
    naive::Sequence sequence{.tokens = prompt.ids,
                             .outputs = {},
                             .prefix_rows = prefix->rows,
                             .held_position = prefix->held_position};
    const size_t steps = std::min(kGreedyTokens, prompt.greedy.size());
    for (size_t step = 0; step < steps; ++step) {
      sequence.outputs = {static_cast<int64_t>(sequence.tokens.size()) - 1};
      const bool of_prompt = model->graph.sequence_rules.rope_length_of_prompt();
      sequence.rope_length = std::ssize(of_prompt ? prompt.ids : sequence.tokens);
      const std::vector<float> logits =
          naive::interpret(std::span(&model->graph, 1), golden.tensors, sequence)[0];
      ASSERT_EQ(logits.size(), prompt.last_logits.size());
      float max = 0;
      for (float golden_logit : prompt.last_logits) max = std::max(max, std::abs(golden_logit));
      for (size_t i = 0; step == 0 && i < logits.size(); ++i) {
        ASSERT_NEAR(logits[i], prompt.last_logits[i], kTolerance * max) << i;
      }
      const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
      ASSERT_EQ(best, prompt.greedy[step]) << "greedy token " << step;
      sequence.tokens.push_back(prompt.greedy[step]);
    }
  }
}

std::vector<const char*> golden_names() {
  std::vector<const char*> names;
  for (const GoldenName& golden : kGoldens) names.push_back(golden.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenTest, testing::ValuesIn(golden_names()),
                         [](const auto& test) {
                           const std::string path = test.param;
                           return path.substr(path.rfind('/') + 1);
                         });

}  // namespace
}  // namespace lockstep

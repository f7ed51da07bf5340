// SPDX-License-Identifier: Apache-2.0
// The small models of the goldens run end to end in this process, for several numbers of ranks and
// both strategies. Every greedy token and the prompt's logits are compared with the reference.
#include <gtest/gtest.h>

#include "tests/support/files/test_data.h"
#include "tests/support/goldens/golden_names.h"
#include "tests/support/goldens/golden_run.h"

namespace lockstep {
namespace {

struct Run {
  std::string name;  // The case's folder in the test data.
  int ranks;
  Strategy strategy;
};

std::string run_name(const ::testing::TestParamInfo<Run>& info) {
  const std::string& name = info.param.name;
  return name.substr(name.rfind('/') + 1) + "_" + std::to_string(info.param.ranks) + "_" +
         strategy_name(info.param.strategy);
}

std::vector<Run> all_runs() {
  std::vector<Run> runs;
  std::vector<GoldenName> all(std::begin(kGoldens), std::end(kGoldens));
  all.insert(all.end(), std::begin(kOtherNames), std::end(kOtherNames));
  for (const GoldenName& c : all) {
    for (const int ranks : {1, 2, 3, 5}) {
      if (ranks > c.heads) continue;
      runs.push_back({c.name, ranks, Strategy::kGather});
      runs.push_back({c.name, ranks, Strategy::kReduce});
    }
  }
  return runs;
}

class GoldenTest : public ::testing::TestWithParam<Run> {};

TEST_P(GoldenTest, TokensAndLogitsEqualThoseOfTheReference) {
  LOCKSTEP_NEEDS_TEST_DATA(GetParam().name);
  const GoldenCase golden = load_golden_case(GetParam().name);
  InProcessOptions options{.model = golden.folder,
                           .ranks = GetParam().ranks,
                           .strategy = GetParam().strategy,
                           .dtype = "float32"};
  expect_golden(golden, options);
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTest, ::testing::ValuesIn(all_runs()), run_name);

}  // namespace
}  // namespace lockstep

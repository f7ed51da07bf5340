// SPDX-License-Identifier: Apache-2.0
// Reference models end to end in this process, against what the reference computes: every greedy
// token, and the logits of the prompt, for several numbers of ranks and both strategies.
#include <gtest/gtest.h>

#include "tests/support/golden_run.h"
#include "tests/support/test_data.h"

namespace lockstep {
namespace {

struct Run {
  std::string name;  // Of the case's folder in the test data.
  int ranks;
  Strategy strategy;
};

std::string run_name(const ::testing::TestParamInfo<Run>& info) {
  const std::string& name = info.param.name;
  return name.substr(name.rfind('/') + 1) + "_" + std::to_string(info.param.ranks) + "_" +
         strategy_name(info.param.strategy);
}

std::vector<Run> all_runs() {
  struct Case {
    const char* name;
    int heads;
  };
  std::vector<Run> runs;
  for (const Case& c : std::initializer_list<Case>{{"goldens/llama_mha", 4},
                                                   {"goldens/llama_gqa", 8},
                                                   {"goldens/llama_tied", 4},
                                                   {"goldens/llama3_rope", 8},
                                                   {"goldens/mistral_window", 8},
                                                   {"goldens/qwen2", 8},
                                                   {"goldens/qwen3", 4},
                                                   {"goldens/baichuan_7b", 4},
                                                   {"goldens/internlm", 4},
                                                   {"goldens/internlm2", 8},
                                                   {"goldens/phi3", 4},
                                                   {"goldens/smollm3", 7},
                                                   {"goldens/mixtral", 4},
                                                   {"goldens/qwen2_moe", 4},
                                                   {"goldens/qwen3_moe", 4},
                                                   {"goldens/granite", 6},
                                                   {"goldens/gemma", 4},
                                                   {"goldens/gemma2", 4},
                                                   {"goldens/gemma3_text", 4},
                                                   {"goldens/glm4", 6},
                                                   {"goldens/chatglm2_6b", 4},
                                                   {"goldens/gpt_neox_parallel", 4},
                                                   {"goldens/gpt_neox_serial", 4},
                                                   {"goldens/gptj", 4},
                                                   {"goldens/codegen", 4},
                                                   {"goldens/moss", 4},
                                                   {"goldens/phi", 4},
                                                   {"goldens/stablelm", 4},
                                                   {"goldens/stablelm_epoch", 4},
                                                   {"goldens/falcon_7b_style", 4},
                                                   {"goldens/falcon_40b_style", 8},
                                                   {"tests/data/goldens/cohere", 6},
                                                   {"tests/data/goldens/cohere2", 6},
                                                   {"tests/data/goldens/exaone4", 6},
                                                   {"tests/data/goldens/exaone4_full", 6},
                                                   {"tests/data/goldens/starcoder2", 6},
                                                   {"goldens/olmo2", 4},
                                                   {"goldens/olmo3", 5},
                                                   {"models/stories260k", 8}}) {
    for (const int ranks : {1, 2, 3, 5}) {
      if (ranks > c.heads) continue;
      runs.push_back({c.name, ranks, Strategy::kGather});
      runs.push_back({c.name, ranks, Strategy::kReduce});
    }
  }
  return runs;
}

class GoldenTest : public ::testing::TestWithParam<Run> {};

TEST_P(GoldenTest, GivesTheReferencesTokensAndLogits) {
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

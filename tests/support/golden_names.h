// SPDX-License-Identifier: Apache-2.0
// The goldens that every graph and every kernel is held to.
#pragma once

namespace lockstep {

struct GoldenName {
  const char* name;  // Of its folder, for test_data().
  int heads;         // Ranks that it can have.
};

// Not goldens/falcon_alibi: its reference, eager attention of transformers 5.23, adds alibi twice,
// once in the mask. That of tests/data was made with the attention that is the default there.
inline constexpr GoldenName kGoldens[] = {
    {"goldens/llama_mha", 4},
    {"goldens/llama_gqa", 8},
    {"goldens/llama_tied", 4},
    {"goldens/llama3_rope", 8},
    {"goldens/mistral_window", 8},
    {"goldens/minigpt4_prefix", 4},
    {"goldens/qwen1", 4},
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
    {"goldens/gpt2", 4},
    {"goldens/gpt_bigcode_mqa", 4},
    {"goldens/mpt_alibi", 4},
    {"tests/data/goldens/falcon_alibi", 5},
    {"tests/data/goldens/bloom", 6},
    {"tests/data/goldens/opt", 5},
    {"tests/data/goldens/mpt", 6},
    {"goldens/baichuan_13b", 4},
    {"goldens/baichuan2_13b", 4},
    {"goldens/gpt_oss", 6},
    {"tests/data/goldens/cohere_qk_norm", 6},
    {"tests/data/goldens/stablelm_qk_norm", 6},
    {"tests/data/goldens/phi_qk_norm", 5},
    {"tests/data/goldens/minimax_m2", 6},
    {"tests/data/goldens/ministral3", 6},
    {"tests/data/goldens/mistral3", 6},
    {"tests/data/goldens/gemma3", 6},
    {"tests/data/goldens/glm4_moe_groups", 6},
    {"goldens/glm4_moe", 6},
    {"tests/data/goldens/lfm2", 6},
    {"goldens/deepseek_v2", 4},
    {"goldens/deepseek_v3", 4},
    {"goldens/qwen3_next", 4},
    {"goldens/qwen3_5", 4},
    {"goldens/qwen3_5_moe", 4},
    {"models/stories260k", 8},
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// Llama 1 to 3; Mistral, which is Llama with a window; Ministral 3, which is Mistral with queries
// scaled by their position.
#include "models/blocks.h"
#include "models/families/families.h"

namespace lockstep::families::llama {
namespace {

constexpr char kMinistral3Defaults[] = R"({"max_position_embeddings": 262144, "rope_parameters": {
    "type": "yarn", "rope_theta": 1000000.0, "factor": 16.0, "beta_fast": 32.0, "beta_slow": 1.0,
    "original_max_position_embeddings": 16384, "mscale_all_dim": 1.0, "mscale": 1.0,
    "llama_4_scaling_beta": 0.1}})";

constexpr Architecture kRows[] = {
    {"LlamaForCausalLM", build_llama, {.keys = {"attention_bias", "mlp_bias", "layer_types"}}},
    {"MistralForCausalLM",
     build_llama,
     {.window = WindowRule::kAllLayers,
      .default_window = 4096,
      .keys = {"sliding_window", "layer_types"}}},
    {"Ministral3ForCausalLM",
     build_llama,
     {.norm_eps = 1e-5,
      .kv_heads = 8,
      .head_dim = 128,
      .window = WindowRule::kAllLayers,
      .defaults = kMinistral3Defaults,
      .keys = {"sliding_window", "llama_4_scaling_beta"}}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::llama

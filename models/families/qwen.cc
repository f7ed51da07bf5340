// SPDX-License-Identifier: Apache-2.0
// Qwen2 and Qwen3: Llama with biases, or with a norm per head, of q and k.
#include "models/blocks.h"
#include "models/families/families.h"

namespace lockstep::families::qwen {
namespace {

constexpr Architecture kRows[] = {
    {"Qwen2ForCausalLM",
     build_llama,
     {.qkv_bias = true,
      .window = WindowRule::kByLayer,
      .default_window = 4096,
      .max_window_layers = 28,
      .keys = {"use_sliding_window", "sliding_window", "max_window_layers", "layer_types"}}},
    {"Qwen3ForCausalLM",
     build_llama,
     {.qk_norm = kHeadNorms,
      .head_dim = 128,
      .window = WindowRule::kByLayer,
      .default_window = 4096,
      .max_window_layers = 28,
      .keys = {"attention_bias", "use_sliding_window", "sliding_window", "max_window_layers",
               "layer_types"}}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::qwen

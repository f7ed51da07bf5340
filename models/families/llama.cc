// SPDX-License-Identifier: Apache-2.0
// Llama 1 to 3, and Mistral, which is Llama with a window.
#include "models/blocks.h"
#include "models/families/families.h"

namespace lockstep::families::llama {
namespace {

constexpr Architecture kRows[] = {
    {"LlamaForCausalLM", build_llama, {.keys = {"attention_bias", "mlp_bias", "layer_types"}}},
    {"MistralForCausalLM",
     build_llama,
     {.window = WindowRule::kAllLayers,
      .default_window = 4096,
      .keys = {"sliding_window", "layer_types"}}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::llama

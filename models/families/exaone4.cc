// SPDX-License-Identifier: Apache-2.0
// EXAONE 4: Llama's blocks with a norm per head of q and k, and norms behind attention and MLP in
// place of those before them.
#include "models/blocks.h"
#include "models/families/families.h"

namespace lockstep::families::exaone4 {
namespace {

void build_exaone4(Graph& g, const Config& c) {
  build_layers(g, c,
               {.attention_norm = nullptr,
                .attention_out_norm = "post_attention_layernorm",
                .mlp_norm = nullptr,
                .mlp_out_norm = "post_feedforward_layernorm"});
}

constexpr Architecture kRows[] = {
    {"Exaone4ForCausalLM",
     build_exaone4,
     {.qk_norm = kHeadNorms,
      .norm_eps = 1e-5,
      .kv_heads = 32,
      .window = WindowRule::kPattern,
      .default_window = 4096,
      .full_every = 4,
      .only_windows_turn = true,
      .keys = {"sliding_window", "sliding_window_pattern", "layer_types"}}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::exaone4

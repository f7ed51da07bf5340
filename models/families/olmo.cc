// SPDX-License-Identifier: Apache-2.0
// OLMo 2 and 3: norms behind attention and MLP in place of those before them, and of q and k over
// all heads together. OLMo 3 has windows, and scales rotary angles where there is none.
#include "models/blocks.h"
#include "models/families/families.h"

namespace lockstep::families::olmo {
namespace {

void build_olmo(Graph& g, const Config& c) {
  build_layers(g, c,
               {.attention_norm = nullptr,
                .attention_out_norm = "post_attention_layernorm",
                .mlp_norm = nullptr,
                .mlp_out_norm = "post_feedforward_layernorm"});
}

constexpr Architecture kRows[] = {
    {"Olmo2ForCausalLM",
     build_olmo,
     {.qk_norm = kNormOverAllHeads, .norm_eps = 1e-5, .keys = {"attention_bias"}}},
    {"Olmo3ForCausalLM",
     build_olmo,
     {.qk_norm = kNormOverAllHeads,
      .norm_eps = 1e-5,
      .rope_theta = 500000,
      .window_rope_theta = 500000,  // Whatever rope_theta is.
      .window = WindowRule::kPattern,
      .default_window = 4096,
      .full_every = 4,
      .keys = {"attention_bias", "sliding_window", "layer_types"}}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::olmo

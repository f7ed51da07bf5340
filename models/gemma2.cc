// SPDX-License-Identifier: Apache-2.0
// Gemma 2 and 3: Llama's blocks, with norms before and after each; the rest is in Config.
#include "models/gemma2.h"

#include "models/blocks.h"

namespace lockstep {

void build_gemma2(Graph& g, const Config& c) {
  build_layers(g, c,
               {.attention_out_norm = "post_attention_layernorm",
                .mlp_norm = "pre_feedforward_layernorm",
                .mlp_out_norm = "post_feedforward_layernorm"});
}

}  // namespace lockstep

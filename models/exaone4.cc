// SPDX-License-Identifier: Apache-2.0
// EXAONE 4: Llama's blocks with a norm per head of q and k, and norms behind attention and MLP in
// place of those before them.
#include "models/exaone4.h"

#include "models/blocks.h"

namespace lockstep {

void build_exaone4(Graph& g, const Config& c) {
  build_layers(g, c,
               {.attention_norm = nullptr,
                .attention_out_norm = "post_attention_layernorm",
                .mlp_norm = nullptr,
                .mlp_out_norm = "post_feedforward_layernorm"});
}

}  // namespace lockstep

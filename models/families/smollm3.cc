// SPDX-License-Identifier: Apache-2.0
// SmolLM3: Llama with layers that turn nothing.
#include "models/blocks.h"
#include "models/families/families.h"

namespace lockstep::families::smollm3 {
namespace {

constexpr Architecture kRows[] = {
    {"SmolLM3ForCausalLM",
     old_build_llama,
     {.tie_word_embeddings = true,
      .rope_theta = 2000000,
      .kv_heads = 4,
      .window = WindowRule::kNoRope,
      .no_rope_every = 4,
      // The reference does not read max_window_layers.
      .keys = {"attention_bias", "mlp_bias", "no_rope_layers", "no_rope_layer_interval",
               "use_sliding_window", "sliding_window", "layer_types", "max_window_layers"}}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::smollm3

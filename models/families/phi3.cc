// SPDX-License-Identifier: Apache-2.0
// Phi-3 to Phi-4: Llama's maths over fused matrices, with a window, a part of each head rotated and
// other frequencies in long sequences where the config says so.
#include "models/blocks.h"
#include "models/families/families.h"

namespace lockstep::families::phi3 {
namespace {

Value attention(Graph& g, const Config& c, Value x, int layer) {
  return stacked_attention(g, c, x, layer, "self_attn.qkv_proj", "self_attn.o_proj");
}

Value mlp(Graph& g, const Config& c, Value x, int) {
  return stacked_mlp(g, c, x, "mlp.gate_up_proj", "mlp.down_proj");
}

void build_phi3(Graph& g, const Config& c) {
  build_layers(g, c, {.attention = attention, .mlp = mlp});
}

constexpr Architecture kRows[] = {
    {"Phi3ForCausalLM",
     build_phi3,
     {.norm_eps = 1e-5,
      .partial_rotary = 1,
      .yarn_is_longrope = true,
      .window = WindowRule::kAllLayers,
      .defaults = R"({"original_max_position_embeddings": 4096})",
      // The reference does not read the last two.
      .keys = {"sliding_window", "full_attn_mod", "interpolate_factor"}}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::phi3

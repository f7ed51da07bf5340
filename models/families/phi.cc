// SPDX-License-Identifier: Apache-2.0
// Phi-1 to Phi-2: one layer norm feeds attention and MLP; a part of each head turns.
#include "models/blocks.h"
#include "models/families/families.h"

namespace lockstep::families::phi {
namespace {

Value attention(Graph& g, const Config& c, Value x, int layer) {
  return separate_attention(g, c, x, layer, "self_attn", "self_attn.dense");
}

Value mlp(Graph& g, const Config& c, Value x, int) {
  return plain_mlp(g, c, x, "mlp.fc1", "mlp.fc2");
}

void build_phi(Graph& g, const Config& c) {
  build_layers(g, c, {.attention = attention, .mlp = mlp, .norm = "model.final_layernorm"});
}

constexpr Architecture kRows[] = {
    {"PhiForCausalLM",
     build_phi,
     {.attention_bias = true,
      .mlp_bias = true,
      .head_bias = true,
      .qk_norm = {.over = QkNorm::Over::kHead,
                  .centred = true,
                  .bias = true,
                  .q = "q_layernorm",
                  .k = "k_layernorm"},
      .layer_norm = true,
      .parallel = true,
      .parallel_norms = 1,
      .norm_eps = 1e-5,
      .activation = "gelu_new",
      .partial_rotary = 0.5,
      .keys = {"use_qk_norm"},
      .names = {{{"layer_norm_eps", "rms_norm_eps"}, {"qk_layernorm", "use_qk_norm"}}}}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::phi

// SPDX-License-Identifier: Apache-2.0
// Phi-1 to Phi-2: one layer norm feeds attention and MLP; a part of each head turns.
#include "models/phi.h"

#include "models/blocks.h"

namespace lockstep {
namespace {

Value attention(Graph& g, const Config& c, Value x, int layer) {
  return separate_attention(g, c, x, layer, "self_attn", "self_attn.dense");
}

Value mlp(Graph& g, const Config& c, Value x, int) {
  return plain_mlp(g, c, x, "mlp.fc1", "mlp.fc2");
}

}  // namespace

void build_phi(Graph& g, const Config& c) {
  build_layers(g, c, {.attention = attention, .mlp = mlp, .norm = "model.final_layernorm"});
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// GPT-NeoX, Pythia, RedPajama, Dolly: layer norms, a part of each head turned, q, k and v of each
// head together in one matrix; the two halves of a layer are parallel, each with a norm, or serial.
#include "models/gpt_neox.h"

#include "models/blocks.h"

namespace lockstep {
namespace {

Value attention(Graph& g, const Config& c, Value x, int layer) {
  return grouped_attention(g, c, x, layer, "attention.query_key_value", "attention.dense");
}

Value mlp(Graph& g, const Config& c, Value x, int) {
  return plain_mlp(g, c, x, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h");
}

}  // namespace

void build_gpt_neox(Graph& g, const Config& c) {
  build_layers(g, c,
               {.attention = attention,
                .mlp = mlp,
                .embedding = "gpt_neox.embed_in",
                .layers = "gpt_neox.layers",
                .norm = "gpt_neox.final_layer_norm",
                .head = "embed_out"});
}

}  // namespace lockstep

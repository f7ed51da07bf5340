// SPDX-License-Identifier: Apache-2.0
#include "models/blocks.h"

#include <string>

#include "base/math.h"

namespace lockstep {

AttentionSpec attention_spec(const Config& c, int layer) {
  return {
      .head_dim = c.head_dim,
      .heads = c.heads,
      .kv_heads = c.kv_heads,
      .scale = static_cast<float>(exact_pow(static_cast<double>(c.head_dim), -0.5)),
      .window = c.windows[layer],
      .layer = layer,
  };
}

Value gated_mlp(Graph& g, const Config& c, Value x, int) {
  const Value gate = g.silu(g.linear(x, "mlp.gate_proj", ffn(c), c.mlp_bias));
  const Value up = g.linear(x, "mlp.up_proj", ffn(c), c.mlp_bias);
  return g.linear(g.mul(gate, up), "mlp.down_proj", hidden(c), c.mlp_bias);
}

void build_pre_norm(Graph& g, const Config& c, AttentionBlock attention, MlpBlock mlp) {
  Value x = g.embed("model.embed_tokens", vocab(c), hidden(c));
  for (int layer = 0; layer < c.layers; ++layer) {
    const Scope scope(g, "model.layers." + std::to_string(layer));
    const Value a = g.rms_norm(x, "input_layernorm", c.norm_eps);
    x = g.add(x, attention(g, c, a, layer));
    const Value m = g.rms_norm(x, "post_attention_layernorm", c.norm_eps);
    x = g.add(x, mlp(g, c, m, layer));
  }
  x = g.rms_norm(g.select_rows(x), "model.norm", c.norm_eps);
  const char* head = c.tie_word_embeddings ? "model.embed_tokens" : "lm_head";
  g.top_candidates(g.head(x, head, vocab(c)));
}

}  // namespace lockstep

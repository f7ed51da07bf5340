// SPDX-License-Identifier: Apache-2.0
// Llama 1 to 3, Mistral, Qwen2 and Qwen3 differ only in Config.
#include "models/llama.h"

#include <string>

#include "base/math.h"

namespace lockstep {
namespace {

Value attention(Graph& g, const Config& c, Value x, int layer) {
  Value q = g.linear(x, "self_attn.q_proj", heads(c), c.qkv_bias);
  Value k = g.linear(x, "self_attn.k_proj", kv_heads(c), c.qkv_bias);
  const Value v = g.linear(x, "self_attn.v_proj", kv_heads(c), c.qkv_bias);
  if (c.qk_norm) {
    q = g.head_norm(q, "self_attn.q_norm", c.norm_eps, c.head_dim);
    k = g.head_norm(k, "self_attn.k_norm", c.norm_eps, c.head_dim);
  }
  const AttentionSpec spec = {
      .head_dim = c.head_dim,
      .heads = c.heads,
      .kv_heads = c.kv_heads,
      .scale = static_cast<float>(exact_pow(static_cast<double>(c.head_dim), -0.5)),
      .window = c.windows[layer],
      .layer = layer,
  };
  q = g.rope(q, c.rope);
  k = g.rope(k, c.rope);
  const Value y = g.attention(q, k, v, spec);
  return g.linear(y, "self_attn.o_proj", hidden(c), c.output_bias);
}

Value mlp(Graph& g, const Config& c, Value x) {
  const Value gate = g.silu(g.linear(x, "mlp.gate_proj", ffn(c), c.mlp_bias));
  const Value up = g.linear(x, "mlp.up_proj", ffn(c), c.mlp_bias);
  return g.linear(g.mul(gate, up), "mlp.down_proj", hidden(c), c.mlp_bias);
}

}  // namespace

void build_llama(Graph& g, const Config& c) {
  Value x = g.embed("model.embed_tokens", vocab(c), hidden(c));
  for (int layer = 0; layer < c.layers; ++layer) {
    const Scope scope(g, "model.layers." + std::to_string(layer));
    const Value a = g.rms_norm(x, "input_layernorm", c.norm_eps);
    x = g.add(x, attention(g, c, a, layer));
    const Value m = g.rms_norm(x, "post_attention_layernorm", c.norm_eps);
    x = g.add(x, mlp(g, c, m));
  }
  x = g.rms_norm(g.select_rows(x), "model.norm", c.norm_eps);
  const char* head = c.tie_word_embeddings ? "model.embed_tokens" : "lm_head";
  g.top_candidates(g.head(x, head, vocab(c)));
}

}  // namespace lockstep

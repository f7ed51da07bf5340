// SPDX-License-Identifier: Apache-2.0
// Llama 1 to 3, Mistral, Qwen2 and Qwen3 differ only in Config.
#include "models/llama.h"

#include "models/blocks.h"

namespace lockstep {

Value llama_attention(Graph& g, const Config& c, Value x, int layer) {
  Value q = g.linear(x, "self_attn.q_proj", heads(c), c.qkv_bias);
  Value k = g.linear(x, "self_attn.k_proj", kv_heads(c), c.qkv_bias);
  const Value v = g.linear(x, "self_attn.v_proj", kv_heads(c), c.qkv_bias);
  if (c.qk_norm) {
    q = g.head_norm(q, "self_attn.q_norm", c.norm_eps, c.head_dim);
    k = g.head_norm(k, "self_attn.k_norm", c.norm_eps, c.head_dim);
  }
  q = g.rope(q, c.rope);
  k = g.rope(k, c.rope);
  const Value y = g.attention(q, k, v, attention_spec(c, layer));
  return g.linear(y, "self_attn.o_proj", hidden(c), c.output_bias);
}

void build_llama(Graph& g, const Config& c) { build_pre_norm(g, c, llama_attention); }

}  // namespace lockstep

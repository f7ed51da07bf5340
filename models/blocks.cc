// SPDX-License-Identifier: Apache-2.0
#include "models/blocks.h"

#include "base/math.h"

namespace lockstep {
namespace {

// Rows [begin, begin + the columns of `out`) of a matrix of `all_rows`.
Value stacked_part(Graph& g, Value x, const std::string& name, const char* part, int64_t begin,
                   int64_t all_rows, AxisSize out, bool bias) {
  const FusedPart rows = {
      .name = part, .all_rows = all_rows, .rows = {{begin, begin + out.columns()}}};
  return g.linear_part(x, name, rows, out, bias);
}

}  // namespace

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

Value turned_attention(Graph& g, const Config& c, Value q, Value k, Value v, int layer,
                       const std::string& out) {
  if (c.turns[layer]) {
    q = g.rope(q, c.rope);
    k = g.rope(k, c.rope);
  }
  const Value y = g.attention(q, k, v, attention_spec(c, layer));
  return g.linear(y, out, hidden(c), c.output_bias);
}

Value separate_attention(Graph& g, const Config& c, Value x, int layer) {
  Value q = g.linear(x, "self_attn.q_proj", heads(c), c.qkv_bias);
  Value k = g.linear(x, "self_attn.k_proj", kv_heads(c), c.qkv_bias);
  const Value v = g.linear(x, "self_attn.v_proj", kv_heads(c), c.qkv_bias);
  if (c.qk_norm) {
    q = g.head_norm(q, "self_attn.q_norm", c.norm_eps, c.head_dim);
    k = g.head_norm(k, "self_attn.k_norm", c.norm_eps, c.head_dim);
  }
  return turned_attention(g, c, q, k, v, layer, "self_attn.o_proj");
}

Value stacked_attention(Graph& g, const Config& c, Value x, int layer, const std::string& qkv) {
  const int64_t q_end = heads(c).columns();
  const int64_t k_end = q_end + kv_heads(c).columns();
  const int64_t rows = k_end + kv_heads(c).columns();
  const Value q = stacked_part(g, x, qkv, "q", 0, rows, heads(c), c.qkv_bias);
  const Value k = stacked_part(g, x, qkv, "k", q_end, rows, kv_heads(c), c.qkv_bias);
  const Value v = stacked_part(g, x, qkv, "v", k_end, rows, kv_heads(c), c.qkv_bias);
  return turned_attention(g, c, q, k, v, layer, "self_attn.o_proj");
}

Value gated_mlp(Graph& g, const Config& c, Value x, int) {
  const Value gate = g.silu(g.linear(x, "mlp.gate_proj", ffn(c), c.mlp_bias));
  const Value up = g.linear(x, "mlp.up_proj", ffn(c), c.mlp_bias);
  return g.linear(g.mul(gate, up), "mlp.down_proj", hidden(c), c.mlp_bias);
}

Value stacked_mlp(Graph& g, const Config& c, Value x, int) {
  const int64_t width = ffn(c).columns();
  const auto part = [&](const char* name, int64_t begin) {
    return stacked_part(g, x, "mlp.gate_up_proj", name, begin, 2 * width, ffn(c), c.mlp_bias);
  };
  const Value gate = g.silu(part("gate", 0));
  return g.linear(g.mul(gate, part("up", width)), "mlp.down_proj", hidden(c), c.mlp_bias);
}

void build_pre_norm(Graph& g, const Config& c, const PreNorm& model) {
  Value x = g.embed(model.embedding, vocab(c), hidden(c));
  for (int layer = 0; layer < c.layers; ++layer) {
    const Scope scope(g, "model.layers." + std::to_string(layer));
    const Value a = g.rms_norm(x, model.attention_norm, c.norm_eps);
    x = g.add(x, model.attention(g, c, a, layer));
    const Value m = g.rms_norm(x, model.mlp_norm, c.norm_eps);
    x = g.add(x, model.mlp(g, c, m, layer));
  }
  x = g.rms_norm(g.select_rows(x), "model.norm", c.norm_eps);
  g.top_candidates(g.head(x, c.tie_word_embeddings ? model.embedding : model.head, vocab(c)));
}

}  // namespace lockstep

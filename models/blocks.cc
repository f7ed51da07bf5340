// SPDX-License-Identifier: Apache-2.0
#include "models/blocks.h"

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
      .scale = c.attention_scale,
      .window = c.windows[layer],
      .cap = c.attention_cap,
      .layer = layer,
  };
}

Value turned_attention(Graph& g, const Config& c, Value q, Value k, Value v, int layer,
                       const std::string& out) {
  if (c.turns[layer]) {
    const Rope& rope = c.windows[layer] > 0 ? c.window_rope : c.rope;
    q = g.rope(q, rope);
    k = g.rope(k, rope);
  }
  const Value y = g.attention(q, k, v, attention_spec(c, layer));
  return g.linear(y, out, hidden(c), c.output_bias);
}

Value separate_attention(Graph& g, const Config& c, Value x, int layer) {
  Value q = g.linear(x, "self_attn.q_proj", heads(c), c.qkv_bias);
  Value k = g.linear(x, "self_attn.k_proj", kv_heads(c), c.qkv_bias);
  const Value v = g.linear(x, "self_attn.v_proj", kv_heads(c), c.qkv_bias);
  if (c.qk_norm) {
    q = g.head_norm(q, "self_attn.q_norm", c.norm_eps, c.head_dim, c.norm_plus);
    k = g.head_norm(k, "self_attn.k_norm", c.norm_eps, c.head_dim, c.norm_plus);
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
  const Value gate = g.map(g.linear(x, "mlp.gate_proj", ffn(c), c.mlp_bias), c.activation);
  const Value up = g.linear(x, "mlp.up_proj", ffn(c), c.mlp_bias);
  return g.linear(g.mul(gate, up), "mlp.down_proj", hidden(c), c.mlp_bias);
}

Value stacked_mlp(Graph& g, const Config& c, Value x, int) {
  const int64_t width = ffn(c).columns();
  const auto part = [&](const char* name, int64_t begin) {
    return stacked_part(g, x, "mlp.gate_up_proj", name, begin, 2 * width, ffn(c), c.mlp_bias);
  };
  const Value gate = g.map(part("gate", 0), c.activation);
  return g.linear(g.mul(gate, part("up", width)), "mlp.down_proj", hidden(c), c.mlp_bias);
}

void build_layers(Graph& g, const Config& c, const Layers& model) {
  const auto norm = [&](Value x, const char* name) {
    return name == nullptr ? x : g.rms_norm(x, name, c.norm_eps, c.norm_plus);
  };
  const auto scaled = [&](Value x, float factor) {
    return factor == 1 ? x : g.map(x, Function::kScale, factor);
  };
  Value x = scaled(g.embed(model.embedding, vocab(c), hidden(c)), c.embedding_multiplier);
  for (int layer = 0; layer < c.layers; ++layer) {
    const Scope scope(g, "model.layers." + std::to_string(layer));
    const Value a = model.attention(g, c, norm(x, model.attention_norm), layer);
    x = g.add(x, scaled(norm(a, model.attention_out_norm), c.residual_multiplier));
    const Value m = model.mlp(g, c, norm(x, model.mlp_norm), layer);
    x = g.add(x, scaled(norm(m, model.mlp_out_norm), c.residual_multiplier));
  }
  x = norm(g.select_rows(x), "model.norm");
  x = g.head(x, c.tie_word_embeddings ? model.embedding : model.head, vocab(c));
  x = scaled(x, 1 / c.logits_scaling);
  g.top_candidates(c.logits_cap == 0 ? x : g.map(x, Function::kCap, c.logits_cap));
}

}  // namespace lockstep

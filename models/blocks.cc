// SPDX-License-Identifier: Apache-2.0
#include "models/blocks.h"

#include "fmt/format.h"

namespace lockstep {
namespace {

// Of q or k.
Value qk_norm(Graph& g, const Config& c, Value x, const std::string& name) {
  switch (c.qk_norm.over) {
    case QkNorm::Over::kNothing:
      break;
    case QkNorm::Over::kAllHeads:
      return g.rms_norm(x, name, c.norm_eps, c.norm_plus);
    case QkNorm::Over::kHead:
      return g.head_norm(x, name,
                         {.eps = c.norm_eps,
                          .head_dim = c.head_dim,
                          .plus = c.norm_plus,
                          .centred = c.qk_norm.centred,
                          .bias = c.qk_norm.bias,
                          .by_head = c.qk_norm.by_head});
  }
  return x;
}

// Rows [begin, begin + the columns of `out`) of a matrix of `all_rows`.
Value stacked_part(Graph& g, Value x, const std::string& name, const char* part, int64_t begin,
                   int64_t all_rows, AxisSize out, bool bias) {
  const FusedPart rows = {
      .name = part, .all_rows = all_rows, .rows = {{begin, begin + out.columns()}}};
  return g.linear_part(x, name, rows, out, bias);
}

}  // namespace

Value norm(Graph& g, const Config& c, Value x, const char* name) {
  if (name == nullptr) return x;
  return c.layer_norm ? g.layer_norm(x, name, c.norm_eps, c.norm_bias, c.norm_plus)
                      : g.rms_norm(x, name, c.norm_eps, c.norm_plus);
}

AttentionSpec attention_spec(const Config& c, int layer) {
  return {
      .head_dim = c.head_dim,
      .heads = c.heads,
      .kv_heads = c.kv_heads,
      .scale = c.attention_scale,
      .window = c.windows[layer],
      .cap = c.attention_cap,
      .layer = layer,
      .slopes = c.slopes,
      .sinks = c.sinks,
      .chunk = c.chunks.empty() ? 0 : c.chunks[layer],
  };
}

Value turned_attention(Graph& g, const Config& c, Value q, Value k, Value v, int layer,
                       const std::string& out) {
  for (Value* x : {&q, &k, &v}) {
    if (c.qkv_clamp > 0) *x = g.map(*x, Function::kClamp, c.qkv_clamp);
  }
  if (c.turns[layer]) {
    const Rope& rope = c.windows[layer] > 0 ? c.window_rope : c.rope;
    q = g.rope(q, rope);
    k = g.rope(k, rope);
    if (c.second_rope.head_dim > 0) {
      q = g.rope(q, c.second_rope);
      k = g.rope(k, c.second_rope);
    }
  }
  if (c.query_scales.length > 0) q = g.position_scale(q, c.query_scales);
  const Value y = g.attention(q, k, v, attention_spec(c, layer));
  return g.linear(y, out, hidden(c), c.output_bias);
}

OldQkv separate_qkv(Graph& g, const Config& c, Value x, const std::string& scope) {
  return {.q = g.linear(x, scope + ".q_proj", heads(c), c.qkv_bias),
          .k = g.linear(x, scope + ".k_proj", kv_heads(c), c.qkv_bias),
          .v = g.linear(x, scope + ".v_proj", kv_heads(c), c.qkv_bias)};
}

Value separate_attention(Graph& g, const Config& c, Value x, int layer, const std::string& scope,
                         const std::string& out) {
  auto [q, k, v] = separate_qkv(g, c, x, scope);
  q = qk_norm(g, c, q, scope + "." + c.qk_norm.q);
  k = qk_norm(g, c, k, scope + "." + c.qk_norm.k);
  return turned_attention(g, c, q, k, v, layer, out);
}

Value old_llama_attention(Graph& g, const Config& c, Value x, int layer) {
  return separate_attention(g, c, x, layer, "self_attn", "self_attn.o_proj");
}

Value stacked_attention(Graph& g, const Config& c, Value x, int layer, const std::string& qkv,
                        const std::string& out) {
  const int64_t q_end = heads(c).columns();
  const int64_t k_end = q_end + kv_heads(c).columns();
  const int64_t rows = k_end + kv_heads(c).columns();
  const Value q = stacked_part(g, x, qkv, "q", 0, rows, heads(c), c.qkv_bias);
  const Value k = stacked_part(g, x, qkv, "k", q_end, rows, kv_heads(c), c.qkv_bias);
  const Value v = stacked_part(g, x, qkv, "v", k_end, rows, kv_heads(c), c.qkv_bias);
  return turned_attention(g, c, q, k, v, layer, out);
}

Value grouped_attention(Graph& g, const Config& c, Value x, int layer, const std::string& qkv,
                        const std::string& out) {
  const int64_t dim = c.head_dim, q_rows = c.heads / c.kv_heads * dim, group = q_rows + 2 * dim;
  FusedPart q{.name = "q", .all_rows = c.kv_heads * group, .rows = {}};
  FusedPart k{.name = "k", .all_rows = q.all_rows, .rows = {}};
  FusedPart v{.name = "v", .all_rows = q.all_rows, .rows = {}};
  for (int64_t begin = 0; begin < q.all_rows; begin += group) {
    const int64_t k_begin = begin + q_rows, v_begin = k_begin + dim;
    q.rows.push_back({begin, k_begin});
    k.rows.push_back({k_begin, v_begin});
    v.rows.push_back({v_begin, v_begin + dim});
  }
  const auto part = [&](const FusedPart& rows, AxisSize columns) {
    return g.linear_part(x, qkv, rows, columns, c.qkv_bias);
  };
  return turned_attention(g, c, part(q, heads(c)), part(k, kv_heads(c)), part(v, kv_heads(c)),
                          layer, out);
}

Value plain_mlp(Graph& g, const Config& c, Value x, const std::string& up,
                const std::string& down) {
  const Value inner = g.map(g.linear(x, up, ffn(c), c.mlp_bias), c.activation);
  return g.linear(inner, down, hidden(c), c.mlp_bias);
}

Value old_gated_mlp(Graph& g, const Config& c, Value x, int) {
  const Value gate = g.map(g.linear(x, "mlp.gate_proj", ffn(c), c.mlp_bias), c.activation);
  const Value up = g.linear(x, "mlp.up_proj", ffn(c), c.mlp_bias);
  return g.linear(g.mul(gate, up), "mlp.down_proj", hidden(c), c.mlp_bias);
}

Value stacked_mlp(Graph& g, const Config& c, Value x, const std::string& gate_up,
                  const std::string& down) {
  const int64_t width = ffn(c).columns();
  const auto part = [&](const char* name, int64_t begin) {
    return stacked_part(g, x, gate_up, name, begin, 2 * width, ffn(c), c.mlp_bias);
  };
  const Value gate = g.map(part("gate", 0), c.activation);
  return g.linear(g.mul(gate, part("up", width)), down, hidden(c), c.mlp_bias);
}

void build_layers(Graph& g, const Config& c, const Layers& model) {
  const auto scaled = [&](Value x, float factor) {
    return factor == 1 ? x : g.map(x, Function::kScale, factor);
  };
  const auto kept = [&](Value x, Value normed) {
    return c.kept_norm == 0 ? x : scaled(normed, c.kept_norm);
  };
  const bool narrow = embedding(c).columns() != c.hidden_size;
  Value x = scaled(g.embed(model.embedding, vocab(c), embedding(c)), c.embedding_multiplier);
  if (narrow) x = g.linear(x, model.project_in, hidden(c));
  if (c.position_rows > 0) {
    x = g.add(x, g.embed_positions(model.positions, c.position_rows, c.position_offset, hidden(c)));
  }
  x = norm(g, c, x, model.embedding_norm);
  if (model.stream != nullptr) x = model.stream(g, c, x, -1);
  for (int layer = 0; layer < c.layers; ++layer) {
    const Scope scope(g, fmt::format("{}.{}", model.layers, layer));
    const Value normed = norm(g, c, x, model.attention_norm);
    const Value a =
        scaled(norm(g, c, model.attention(g, c, normed, layer), model.attention_out_norm),
               c.residual_multiplier);
    if (c.parallel_norms == 0) {
      x = norm(g, c, g.add(kept(x, normed), a), model.attention_end_norm);
    }
    const Value mlp_in = c.parallel_norms == 1 ? normed : norm(g, c, x, model.mlp_norm);
    Value m = scaled(norm(g, c, model.mlp(g, c, mlp_in, layer), model.mlp_out_norm),
                     c.residual_multiplier);
    // Added before they are made whole: one collective for both.
    if (c.parallel_norms != 0) m = g.add(a, m);
    x = norm(g, c, g.add(kept(x, mlp_in), m), model.mlp_end_norm);
    if (model.stream != nullptr) x = model.stream(g, c, x, layer);
  }
  x = norm(g, c, g.select_rows(x), model.norm);
  if (narrow) x = g.linear(x, model.project_out, embedding(c));
  x = g.head(x, c.tie_word_embeddings ? model.embedding : model.head, vocab(c), c.head_bias,
             c.head_unit_rows);
  x = scaled(x, c.logits_multiplier);
  g.top_candidates(c.logits_cap == 0 ? x : g.map(x, Function::kCap, c.logits_cap));
}

void old_build_llama(Graph& graph, const Config& config) { build_layers(graph, config, {}); }

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "models/by_layer_blocks.h"

#include <cmath>

#include "models/expert_blocks.h"

namespace lockstep {
namespace {

float root(int64_t x) { return static_cast<float>(std::sqrt(static_cast<double>(x))); }
float inverse_sqrt(int64_t x) { return static_cast<float>(1 / std::sqrt(static_cast<double>(x))); }

bool full(const Config& c, int layer) { return c.windows[static_cast<size_t>(layer)] == 0; }

Value experts(Graph& g, const Config& c, Value x) {
  const HeadNorm norm_of_all = {.eps = c.norm_eps, .head_dim = c.hidden_size};
  const Value scale = g.broadcast("router.scale", hidden(c), {c.hidden_size});
  const Value scaled = g.map(g.mul(g.head_norm(x, "", norm_of_all), scale), Function::kScale,
                             inverse_sqrt(c.hidden_size));
  Routes routes = g.route(g.router(scaled, "router.proj", c.experts.count),
                          {.chosen = c.experts.chosen, .renormalised = true});
  routes.weights =
      g.expert_scale(routes.weights, routes, "router.per_expert_scale", c.experts.count);
  const Value inner = norm(g, c, x, "pre_feedforward_layernorm_2");
  return g.combine(stacked_experts(g, c, inner, routes), routes);
}

}  // namespace

Config config_of_layer(const Config& c, int layer) {
  Config own = c;
  if (full(c, layer)) {
    own.head_dim = c.kinds.full_head_dim;
    own.kv_heads = c.kinds.full_kv_heads;
  }
  if (layer >= c.kinds.first_sharing) own.intermediate_size = c.kinds.sharing_ffn;
  return own;
}

Value attention_by_kind(Graph& g, const Config& whole, Value x, int layer, KeptPages& all) {
  const Scope scope(g, "self_attn");
  const Config c = config_of_layer(whole, layer);
  const bool shares = layer >= c.kinds.first_sharing;
  KeptPages::Kind& kept = all.kinds[full(c, layer) ? 0 : 1];
  const HeadNorm head = {.eps = c.norm_eps, .head_dim = c.head_dim};
  const Rope& rope = full(c, layer) ? c.rope : c.window_rope;
  const auto turned = [&](Value from, const char* name) {
    return g.rope(g.head_norm(from, name, head), rope);
  };
  const Value q = turned(g.linear(x, "q_proj", heads(c), c.qkv_bias), "q_norm");
  if (!shares) {
    const Value k = g.linear(x, "k_proj", kv_heads(c), c.qkv_bias);
    const bool same = full(c, layer) && c.kinds.full_v_is_k;
    const Value v = same ? k : g.linear(x, "v_proj", kv_heads(c), c.qkv_bias);
    kept = {.layer = layer, .k = turned(k, "k_norm"), .v = g.head_norm(v, "", head)};
  }
  AttentionSpec spec = attention_spec(c, kept.layer);
  spec.read_only = shares;
  const Value y = g.attention(q, kept.k, kept.v, spec);
  return g.linear(y, "o_proj", hidden(c), c.output_bias);
}

Value mlp_beside_experts(Graph& g, const Config& c, Value x, int layer) {
  const Value dense = old_gated_mlp(g, c, norm(g, c, x, "pre_feedforward_layernorm"), layer);
  if (c.experts.count == 0) return dense;
  const Value routed = experts(g, c, x);
  return g.add(norm(g, c, dense, "post_feedforward_layernorm_1"),
               norm(g, c, routed, "post_feedforward_layernorm_2"));
}

Value embeddings_by_layer(Graph& g, const Config& c, Value x) {
  const int64_t width = c.kinds.by_layer_width;
  const AxisSize all = {Axis::kFfn, c.layers, width};  // Cut between layers.
  const Value own = g.embed_beside("model.embed_tokens_per_layer", c.kinds.by_layer_rows, vocab(c),
                                   {Axis::kNone, all.columns(), 1}, c.kinds.absent_id);
  const Value made = g.map(g.linear(x, "model.per_layer_model_projection", all), Function::kScale,
                           inverse_sqrt(c.hidden_size));
  const Value normed =
      g.head_norm(made, "model.per_layer_projection_norm", {.eps = c.norm_eps, .head_dim = width});
  const Value sum = g.add(normed, g.map(own, Function::kScale, root(width)));
  return g.map(sum, Function::kScale, inverse_sqrt(2));
}

Value add_by_layer(Graph& g, const Config& c, Value x, Value by_layer, int layer) {
  const int64_t width = c.kinds.by_layer_width;
  const AxisSize narrow = {Axis::kNone, width, 1};  // Never cut.
  const Value gate = g.map(g.linear(x, "per_layer_input_gate", narrow), c.activation);
  const Value inner = g.mul(gate, g.columns(by_layer, layer * width, (layer + 1) * width));
  const Value y = g.linear(inner, "per_layer_projection", hidden(c));
  return g.add(x, norm(g, c, y, "post_per_layer_input_norm"));
}

}  // namespace lockstep

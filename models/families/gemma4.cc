// SPDX-License-Identifier: Apache-2.0
// Gemma 4: Gemma 3's order of norms. Layers without a window have their own head sizes and may
// compute values with the linear of keys. The last layers read earlier layers' pages. Experts are
// beside the MLP. Each layer has embeddings of its own, and a factor on its output.
#include <algorithm>
#include <array>
#include <cmath>

#include "models/blocks/llama.h"
#include "models/families/families.h"

namespace lockstep::families::gemma4 {
namespace {

float root(int64_t x) { return static_cast<float>(std::sqrt(static_cast<double>(x))); }
float inverse_sqrt(int64_t x) { return static_cast<float>(1 / std::sqrt(static_cast<double>(x))); }

// --- Heads of layers without a window.
struct FullHeads {
  int64_t dim = 1;
  int64_t kv_heads = 1;
  bool v_is_k = false;  // Values are computed from the same linear as keys.
};

// Reads per_layer_config: head_dim and num_key_value_heads of single layers. Newer configs give
// these sizes of the layers without a window here, not in global_head_dim; all must be equal.
void read_per_layer_config(Keys& keys, const Sizes& sizes, FullHeads& full) {
  const Json& layers = keys.json("per_layer_config");
  if (!layers.is_object() || layers.empty() || !layers.begin()->is_object()) {
    return keys.fail("per_layer_config", "must be an object for each layer, found {}",
                     describe(layers));
  }
  const Json& first = *layers.begin();
  for (const auto& [layer, own] : layers.items()) {
    if (own == first) continue;
    keys.fail("per_layer_config", ".{}: must be {}, as the others, found {}", layer, first.dump(),
              describe(own));
  }
  for (const auto& [key, value] : first.items()) {
    if (key == "head_dim" || key == "num_key_value_heads") continue;
    keys.fail("per_layer_config",
              "{} is not supported; supported: head_dim and num_key_value_heads", printable(key));
  }
  Keys members(first);
  full.dim = members.count("head_dim", 1024, sizes.head_dim);
  full.kv_heads = members.count("num_key_value_heads", sizes.heads, sizes.kv_heads);
  keys.fail(members.finish());
}

FullHeads read_full_heads(Keys& keys, const Sizes& sizes) {
  keys.ignore("global_head_dim num_global_key_value_heads");
  FullHeads full = {.kv_heads = sizes.kv_heads, .v_is_k = keys.flag("attention_k_eq_v", false)};
  if (keys.has("per_layer_config")) {
    read_per_layer_config(keys, sizes, full);
  } else {
    full.dim = keys.count("global_head_dim", 1024, 512);
    if (full.v_is_k) {
      full.kv_heads = keys.count("num_global_key_value_heads", sizes.heads, sizes.kv_heads);
    }
  }
  if (sizes.heads % full.kv_heads != 0) {
    keys.fail("num_global_key_value_heads",
              "must be a divisor of num_attention_heads ({}), found {}", sizes.heads,
              full.kv_heads);
  }
  if (sizes.heads * full.dim > kMaxWidth) {
    keys.fail("num_attention_heads * global_head_dim", "must be at most {}, found {}", kMaxWidth,
              sizes.heads * full.dim);
  }
  return full;
}

// --- Sharing layers, the last ones, compute no keys and values. A sharing layer with a window
// reads the pages of the last layer that has a window and its own pages. A sharing layer without a
// window reads those of the last layer that has its own pages and no window.
int read_first_sharing(Keys& keys, const Windows& windows) {
  const auto layers = static_cast<int>(windows.size());
  const auto first =
      layers - static_cast<int>(keys.integer("num_kv_shared_layers", 0, layers - 1, 0));
  const auto own = windows.begin() + first;
  for (auto layer = own; layer != windows.end(); ++layer) {
    const bool full = *layer == 0;
    const auto same = [&](int64_t window) { return (window == 0) == full; };
    if (std::any_of(windows.begin(), own, same)) continue;
    keys.fail("num_kv_shared_layers",
              "must leave at least one layer of the kind {} with its own pages",
              full ? "full_attention" : "sliding_attention");
  }
  return first;
}

// Attention with norms within heads of q, k and v; the norm of v has no weight. `heads` describes
// the heads of layers without a window.
Block attention_by_kind(const Attention& of_windows, const FullHeads& heads, int first_sharing) {
  Attention full = of_windows;
  full.head_dim = heads.dim;
  full.kv_heads = heads.kv_heads;
  // The last layer of each kind that appended keys and values, and those values.
  struct LayerKv {
    int layer = 0;
    Value k, v;
  };
  return [=, pages = std::array<LayerKv, 2>()](Graph& g, Value x, int layer) mutable {
    const Scope scope(g, "self_attn");
    const bool sees_all = full.windows[layer] == 0;
    const Attention& a = sees_all ? full : of_windows;
    const Rope& rope = sees_all ? a.ropes.all : a.ropes.window;
    LayerKv& stored = pages[sees_all ? 0 : 1];
    const HeadNorm head = {.eps = a.norm.eps, .head_dim = a.head_dim};
    const auto rotated = [&](Value from, const char* name) {
      return g.rope(g.head_norm(from, name, head), rope);
    };
    const Value q = rotated(g.linear(x, "q_proj", a.q_axis(), a.qkv_bias), "q_norm");
    if (layer < first_sharing) {
      const Value k = g.linear(x, "k_proj", a.kv_axis(), a.qkv_bias);
      const bool same = sees_all && heads.v_is_k;
      const Value v = same ? k : g.linear(x, "v_proj", a.kv_axis(), a.qkv_bias);
      stored = {.layer = layer, .k = rotated(k, "k_norm"), .v = g.head_norm(v, "", head)};
    }
    AttentionAttrs attrs = attention_attrs(a, stored.layer);
    attrs.read_only = layer >= first_sharing;
    const Value y = g.attention(q, stored.k, stored.v, attrs);
    return g.linear(y, "o_proj", hidden_axis(a.hidden), a.out_bias);
  };
}

// --- Experts beside the MLP, with norms of their own. x is the residual stream before any norm;
// the router reads it, too.
Value experts(Graph& g, const Mixture& m, const Norm& norm, Value x) {
  const HeadNorm norm_of_all = {.eps = norm.eps, .head_dim = m.hidden};
  const Value scale = g.broadcast("router.scale", hidden_axis(m.hidden), {m.hidden});
  const Value scaled = g.map(g.mul(g.head_norm(x, "", norm_of_all), scale), Function::kScale,
                             inverse_sqrt(m.hidden));
  Routes routes =
      g.route(g.router(scaled, "router.proj", m.count), {.chosen = m.chosen, .renormalised = true});
  routes.weights = g.expert_scale(routes.weights, routes, "router.per_expert_scale", m.count);
  const Value inner = apply(g, norm, x, "pre_feedforward_layernorm_2");
  return g.combine(stacked_experts(g, m, inner, routes), routes);
}

Block mlp_beside_experts(const Llama& m, const Mixture& mixture, int first_sharing, bool wide) {
  Mlp last = m.mlp;
  if (wide) last.width *= 2;
  return [=, norm = m.norm, own = gated_mlp(m.mlp), sharing = gated_mlp(last)](Graph& g, Value x,
                                                                               int layer) {
    const Value normed = apply(g, norm, x, "pre_feedforward_layernorm");
    const Value dense = (layer < first_sharing ? own : sharing)(g, normed, layer);
    if (mixture.count == 0) return dense;
    const Value routed =
        apply(g, norm, experts(g, mixture, norm, x), "post_feedforward_layernorm_2");
    return g.add(apply(g, norm, dense, "post_feedforward_layernorm_1"), routed);
  };
}

// --- Embeddings per layer.
struct LayerEmbeddings {
  int64_t width = 0;      // Columns per layer; 0: there are none.
  int64_t rows = 0;       // Rows of the table: the vocabulary, and more that nothing reads.
  int64_t absent_id = 0;  // The token id used for rows given as embeddings.
};

LayerEmbeddings read_layer_embeddings(Keys& keys, const Sizes& sizes) {
  keys.ignore("vocab_size_per_layer_input");
  LayerEmbeddings e = {.width = keys.integer("hidden_size_per_layer_input", 0, 1 << 12, 256)};
  if (e.width == 0) return e;
  e.rows = keys.integer("vocab_size_per_layer_input", sizes.vocab, 1 << 24, 262144);
  e.absent_id = keys.integer("pad_token_id", 0, sizes.vocab - 1, 0);
  return e;
}

// [Rows, layers * width]: for each layer a second embedding of the token, plus a projection of the
// first embedding, x, normed per layer.
Value embed_by_layer(Graph& g, const LayerEmbeddings& e, const Llama& m, Value x) {
  const AxisSize all = {Axis::kFfn, m.sizes.layers, e.width};  // Never split within a layer.
  const Value own =
      g.embed_beside("model.embed_tokens_per_layer", e.rows, {Axis::kVocab, m.sizes.vocab, 1},
                     {Axis::kNone, all.columns(), 1}, e.absent_id);
  const Value made = g.map(g.linear(x, "model.per_layer_model_projection", all), Function::kScale,
                           inverse_sqrt(m.sizes.hidden));
  const Value normed = g.head_norm(made, "model.per_layer_projection_norm",
                                   {.eps = m.norm.eps, .head_dim = e.width});
  const Value sum = g.add(normed, g.map(own, Function::kScale, root(e.width)));
  return g.map(sum, Function::kScale, inverse_sqrt(2));
}

// x + norm(projection(activation(gate(x)) * the layer's columns of by_layer)).
Value add_by_layer(Graph& g, const LayerEmbeddings& e, const Llama& m, Value x, Value by_layer,
                   int layer) {
  const AxisSize narrow = {Axis::kNone, e.width, 1};  // Never split.
  const Value gate = g.map(g.linear(x, "per_layer_input_gate", narrow), m.mlp.activation);
  const Value inner = g.mul(gate, g.columns(by_layer, layer * e.width, (layer + 1) * e.width));
  const Value y = g.linear(inner, "per_layer_projection", hidden_axis(m.sizes.hidden));
  return g.add(x, apply(g, m.norm, y, "post_per_layer_input_norm"));
}

Block stream(const LayerEmbeddings& e, const Llama& m) {
  return [=, by_layer = Value()](Graph& g, Value x, int layer) mutable {
    if (layer < 0) {
      if (e.width > 0) by_layer = embed_by_layer(g, e, m, x);
      return x;
    }
    if (e.width > 0) x = add_by_layer(g, e, m, x, by_layer, layer);
    // One route, whose weight is the factor.
    return g.combine(x, {.weights = g.broadcast("layer_scalar", kOneRow, {1})});
  };
}

Mixture read_experts(Keys& keys, const Llama& m) {
  Mixture mixture =
      read_mixture(keys, m.sizes, m.mlp, "num_experts",
                   {.count = 128, .chosen = 8, .size = 704, .always_renormalised = true});
  return keys.flag("enable_moe_block", false) ? mixture : Mixture();
}

// A wrapper's text_config contains only values that differ from these.
constexpr char kDefaults[] = R"({"vocab_size": 262144, "hidden_size": 2304,
    "intermediate_size": 9216, "num_hidden_layers": 30, "num_attention_heads": 8,
    "max_position_embeddings": 131072, "rope_parameters": {
    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
    "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25,
                       "rope_theta": 1000000.0}}})";

LanguageModel gemma4(Keys& keys) {
  keys.rename("hidden_activation", "hidden_act");
  keys.rename("top_k_experts", "num_experts_per_tok");
  keys.defaults(kDefaults);
  keys.only("use_bidirectional_attention", "vision");  // It does not affect text.
  const SizeDefaults sizes = {.kv_heads = 4, .head_dim = 256};
  const FullHeads full = read_full_heads(keys, read_sizes(keys, sizes));
  Llama m(keys, {.sizes = sizes,
                 .activation = "gelu_pytorch_tanh",
                 .tied = true,
                 .rope = {.head_dim = full.dim, .theta = 1000000, .window_theta = 10000}});
  m.attention.set_bias(keys.flag("attention_bias", false));
  m.attention.scale = 1;
  m.attention.windows = windows_by_pattern(keys, m.sizes.layers, 512, 6);
  m.attention.windows.back() = 0;  // The last layer has no window, whatever layer_types says.
  const int first_sharing = read_first_sharing(keys, m.attention.windows);
  const bool wide = keys.flag("use_double_wide_mlp", false);  // Only in sharing layers.
  const Mixture mixture = read_experts(keys, m);
  LanguageModel d = m.model(attention_by_kind(m.attention, full, first_sharing),
                            mlp_beside_experts(m, mixture, first_sharing, wide));
  d.stream = stream(read_layer_embeddings(keys, m.sizes), m);
  d.attention_out_norm = "post_attention_layernorm";
  d.mlp_norm = nullptr;
  d.mlp_out_norm = "post_feedforward_layernorm";
  d.embedding_multiplier = root(m.sizes.hidden);
  d.logits_cap = keys.cap("final_logit_softcapping");
  d.mixture = mixture;
  return d;
}

constexpr Architecture kRows[] = {{"Gemma4ForCausalLM", gemma4}};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::gemma4

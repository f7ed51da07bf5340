// SPDX-License-Identifier: Apache-2.0
// Llama 4: most layers rotate neighbouring columns, scale each head of q and k to a fixed length,
// and have chunks of attention_chunk_size positions: a query sees only its own chunk. The others
// see all positions and scale q by position. One expert per token, with scaled input, and a shared
// one; some layers have a dense MLP.
#include <vector>

#include "models/blocks/llama.h"
#include "models/families/families.h"

namespace lockstep::families::llama4 {
namespace {

// By layer: attention_chunk_size if the layer rotates (or layer_types says chunked), else 0.
std::vector<int64_t> read_chunks(Keys& keys, const std::vector<bool>& rotates) {
  const int64_t chunk = keys.count("attention_chunk_size", kMaxPositions, 8192);
  std::vector<int64_t> chunks;
  chunks.reserve(rotates.size());
  for (const bool rotated : rotates) chunks.push_back(rotated ? chunk : 0);
  const Json types = keys.list("layer_types", rotates.size());
  for (size_t i = 0; i < types.size(); ++i) {
    const bool chunked = types[i] == "chunked_attention";
    chunks[i] = chunked ? chunk : 0;
    if (chunked || types[i] == "full_attention") continue;
    keys.fail(fmt::format("layer_types[{}]", i),
              "{} is not supported; supported: full_attention, chunked_attention",
              describe(types[i]));
  }
  return chunks;
}

// The scaling of q in layers that do not rotate.
PositionScales read_temperature(Keys& keys, double positions) {
  keys.ignore("attn_scale floor_scale");
  const Json& tuning = keys.json("attn_temperature_tuning");
  if (!tuning.is_boolean() && !tuning.is_number_integer()) {  // Early files have the integer 4.
    keys.fail("attn_temperature_tuning", "must be true or false, found {}", describe(tuning));
  }
  const bool tunes = tuning.is_boolean() ? tuning.get<bool>() : tuning != 0;
  if (!tunes) return {};
  const double beta = keys.number("attn_scale", 0, 1000, 0.1);
  const int64_t length = keys.count("floor_scale", kMaxPositions, 8192);
  return scales_of_log(keys, "floor_scale", beta, length, 1, positions);
}

Value attend(Graph& g, const Attention& a, Value x, int layer) {
  auto [q, k, v] = separate_qkv(g, a, x, "self_attn");
  const Scope scope(g, "self_attn");
  const HeadNorm length = {.eps = a.norm.eps, .head_dim = a.head_dim};
  if (a.rotates[layer]) {
    for (Value* y : {&q, &k}) {
      *y = g.rope(*y, a.ropes.all);
      if (a.qk_norm.any()) *y = g.head_norm(*y, "", length);
    }
  } else if (a.ropes.query_scales.length > 0) {
    q = g.position_scale(q, a.ropes.query_scales);
  }
  return g.linear(g.attention(q, k, v, attention_attrs(a, layer)), "o_proj", hidden_axis(a.hidden),
                  a.out_bias);
}

// Experts are in the layers that moe_layers lists; without it, in every decoder_sparse_step-th one.
Mixture read_experts(Keys& keys, const Llama& m) {
  keys.only("num_experts_per_tok", 1);
  Mixture experts = read_mixture(
      keys, m.sizes, m.mlp, "num_local_experts",
      {.count = 16, .chosen = 1, .size = 8192, .always_renormalised = true, .by_layer = true});
  experts.shared_size = experts.size;
  if (keys.has("moe_layers")) experts.in_layer.assign(experts.in_layer.size(), false);
  for (const size_t layer : keys.layers("moe_layers", m.sizes.layers)) {
    experts.in_layer[layer] = true;
  }
  return experts;
}

Value route_and_add(Graph& g, const Mixture& m, Value x) {
  const Scope scope(g, "feed_forward");
  const Routes routes = g.route(g.router(x, "router", m.count), {.chosen = 1, .sigmoid = true});
  // Each token has one route, so combine() gives the scaled input.
  const Value routed = stacked_experts(g, m, g.combine(x, routes), routes, /*transposed=*/true);
  return g.add(scoped_mlp(g, m.shared(), x, "shared_expert"), routed);
}

LanguageModel llama4(Keys& keys) {
  keys.rename("intermediate_size", "moe_intermediate_size");
  keys.rename("intermediate_size_mlp", "intermediate_size");
  keys.rename("interleave_moe_layer_step", "decoder_sparse_step");
  keys.defaults(R"({"vocab_size": 202048, "hidden_size": 5120, "intermediate_size": 16384,
      "num_hidden_layers": 48, "num_attention_heads": 40, "attn_temperature_tuning": true,
      "use_qk_norm": true})");
  Llama m(keys, {.sizes = {.kv_heads = 8, .head_dim = 128, .positions = 131072},
                 .norm = read_rms_norm(keys, 1e-5),
                 .rope = {.theta = 500000, .interleaved = true}});
  m.attention.set_bias(keys.flag("attention_bias", false));
  m.attention.norm_heads_if_asked(keys);
  m.attention.rotates = rotates_by_layer(keys, m.sizes.layers, 4);
  m.attention.chunks = read_chunks(keys, m.attention.rotates);
  const double positions = static_cast<double>(m.sizes.positions) * m.attention.ropes.reach;
  m.attention.ropes.query_scales = read_temperature(keys, positions);
  const Mixture experts = read_experts(keys, m);
  LanguageModel d =
      m.model([a = m.attention](Graph& g, Value x, int layer) { return attend(g, a, x, layer); },
              [experts, dense = m.mlp](Graph& g, Value x, int layer) {
                return experts.in_layer[layer] ? route_and_add(g, experts, x)
                                               : scoped_mlp(g, dense, x, "feed_forward");
              });
  d.mixture = experts;
  return d;
}

constexpr Architecture kRows[] = {{"Llama4ForCausalLM", llama4}};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::llama4

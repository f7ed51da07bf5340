// SPDX-License-Identifier: Apache-2.0
// Llama 4: most layers turn neighbouring columns, norm q and k by their length and see their own
// run of positions; the others see all, and scale q by its position. One expert for each token,
// whose input is scaled, beside a shared one; some layers have a dense MLP.
#include <vector>

#include "base/status.h"
#include "models/config_keys.h"
#include "models/expert_blocks.h"
#include "models/families/families.h"

namespace lockstep::families::llama4 {
namespace {

Value attention(Graph& g, const Config& c, Value x, int layer) {
  auto [q, k, v] = separate_qkv(g, c, x, "self_attn");
  const Scope scope(g, "self_attn");
  const HeadNorm length = {.eps = c.norm_eps, .head_dim = c.head_dim};
  if (c.turns[layer]) {
    for (Value* y : {&q, &k}) {
      *y = g.rope(*y, c.rope);
      if (c.qk_norm.any()) *y = g.head_norm(*y, "", length);
    }
  } else if (c.query_scales.length > 0) {
    q = g.position_scale(q, c.query_scales);
  }
  return g.linear(g.attention(q, k, v, attention_spec(c, layer)), "o_proj", hidden(c),
                  c.output_bias);
}

Value mlp(Graph& g, const Config& c, Value x, int layer) {
  if (!c.experts.in_layer[static_cast<size_t>(layer)]) {
    return scoped_mlp(g, c, x, "feed_forward", c.intermediate_size);
  }
  const Scope scope(g, "feed_forward");
  const Routes routes =
      g.route(g.router(x, "router", c.experts.count), {.chosen = 1, .sigmoid = true});
  // There is one route for each token: its sum is the scaled input.
  const Value routed = stacked_experts(g, c, g.combine(x, routes), routes, /*transposed=*/true);
  return g.add(shared_expert(g, c, x, "shared_expert"), routed);
}

void build_llama4(Graph& g, const Config& c) {
  build_layers(g, c, {.attention = attention, .mlp = mlp});
}

absl::Status check_llama4(const Json& json) {
  const OnlyValue only[] = {{"num_experts_per_tok", 1}};
  return check_only(json, only);
}

// moe_layers names them, else decoder_sparse_step; the shared expert is as wide as the others.
absl::Status refine_layers(const Json& json, Config& c) {
  c.experts.shared_size = c.experts.size;
  const size_t count = c.experts.in_layer.size();
  ASSIGN_OR_RETURN(const auto listed, read_layer_list(json, "moe_layers", c.layers));
  if (!json.value("moe_layers", Json()).is_null()) c.experts.in_layer.assign(count, false);
  for (const size_t layer : listed) c.experts.in_layer[layer] = true;
  return absl::OkStatus();
}

constexpr Architecture kRows[] = {
    {"Llama4ForCausalLM",
     build_llama4,
     {.qk_norm = kHeadNorms,
      .norm_eps = 1e-5,
      .rope_theta = 500000,
      .rope_interleaved = true,
      .positions = 131072,
      .kv_heads = 8,
      .head_dim = 128,
      .window = WindowRule::kChunks,
      .no_rope_every = 4,
      .defaults = R"({"vocab_size": 202048, "hidden_size": 5120, "intermediate_size": 16384,
          "num_hidden_layers": 48, "num_attention_heads": 40, "attn_temperature_tuning": true,
          "use_qk_norm": true})",
      .keys = {"attention_bias", "attention_chunk_size", "attn_scale", "attn_temperature_tuning",
               "floor_scale", "layer_types", "moe_layers", "no_rope_layer_interval",
               "no_rope_layers", "use_qk_norm"},
      .names = {{{"intermediate_size", "moe_intermediate_size"},
                 {"intermediate_size_mlp", "intermediate_size"},
                 {"interleave_moe_layer_step", "decoder_sparse_step"}}},
      .experts = {.count_key = "num_local_experts",
                  .count = 16,
                  .chosen = 1,
                  .size = 8192,
                  .always_renormalised = true,
                  .by_layer = true},
      .check = check_llama4,
      .refine_layers = refine_layers}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::llama4

// SPDX-License-Identifier: Apache-2.0
// Qwen2-MoE and Qwen3-MoE: the attention of Qwen2 and Qwen3; some layers may have a dense MLP;
// Qwen2 has a shared expert beside the chosen ones. In Qwen3-VL the experts are in stacks, inputs
// first as published, outputs first as transformers 5 saves them.
#include "base/status.h"
#include "models/expert_blocks.h"
#include "models/families/families.h"

namespace lockstep::families::qwen_moe {
namespace {

void build_qwen_moe(Graph& g, const Config& c) { build_layers(g, c, {.mlp = qwen_experts}); }

Value stacked_mlp_experts(Graph& g, const Config& c, Value x, int layer) {
  if (!c.experts.in_layer[static_cast<size_t>(layer)]) return gated_mlp(g, c, x, layer);
  const Scope scope(g, "mlp");
  const Routes routes = g.route(g.router(x, "gate", c.experts.count), with_config(RouteSpec(), c));
  return g.combine(stacked_experts(g, c, x, routes, /*transposed=*/true), routes);
}

void build_qwen3_vl_moe(Graph& g, const Config& c) {
  build_layers(g, c, {.mlp = stacked_mlp_experts});
}

// Without layer_types, transformers 4 has the window in every layer, transformers 5 in every second
// one below max_window_layers.
absl::Status check_qwen2(const Json& json) {
  if (json.value("use_sliding_window", Json()) != true) return absl::OkStatus();
  if (!json.value("layer_types", Json()).is_null()) return absl::OkStatus();
  return invalid_argument(
      "use_sliding_window: releases of transformers differ in which layers have the window: wanted "
      "layer_types, which says it, found nothing");
}

bool is_qwen3_vl(const Json& json) {
  return json.value("model_type", Json()) == "qwen3_vl_moe_text";
}

absl::Status refine_qwen3_vl(const Json&, Config& c) {
  c.experts.either_layout = true;
  return absl::OkStatus();
}

// The reference does not read max_window_layers.
constexpr Family qwen3_moe(WindowRule window, FamilyExperts experts,
                           absl::Status (*refine)(const Json&, Config&) = nullptr) {
  return {.qk_norm = kHeadNorms,
          .window = window,
          .default_window = 4096,
          .keys = {"attention_bias", "use_sliding_window", "sliding_window", "max_window_layers",
                   "layer_types"},
          .experts = experts,
          .refine_layers = refine};
}

constexpr Architecture kRows[] = {
    {"Qwen2MoeForCausalLM",
     build_qwen_moe,
     {.qkv_bias = true,
      .window = WindowRule::kByLayer,
      .default_window = 4096,
      .keys = {"use_qkv_bias", "use_sliding_window", "sliding_window", "max_window_layers",
               "layer_types"},
      .names = {{{"qkv_bias", "use_qkv_bias"}}},
      .experts = {.count_key = "num_experts",
                  .count = 60,
                  .chosen = 4,
                  .size = 1408,
                  .shared_size = 5632,
                  .by_layer = true},
      .check = check_qwen2}},
    {"Qwen3MoeForCausalLM", build_qwen3_vl_moe,
     qwen3_moe(WindowRule::kNone,
               {.count_key = "num_experts",
                .count = 60,
                .chosen = 4,
                .size = 1408,
                .always_renormalised = true,
                .by_layer = true},
               refine_qwen3_vl),
     is_qwen3_vl},
    {"Qwen3MoeForCausalLM", build_qwen_moe,
     qwen3_moe(
         WindowRule::kAsked,
         {.count_key = "num_experts", .count = 128, .chosen = 8, .size = 768, .by_layer = true})},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::qwen_moe

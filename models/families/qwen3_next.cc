// SPDX-License-Identifier: Apache-2.0
// Qwen3-Next and Qwen3.5: in three of four layers the gated delta rule, in the others attention
// whose output has a gate. Norm weights are the w of 1 + w, but for that of the delta rule.
#include "models/config_recurrent.h"
#include "models/expert_blocks.h"
#include "models/families/families.h"
#include "models/recurrent_blocks.h"

namespace lockstep::families::qwen3_next {
namespace {

// By key head: its q, its k, the v and the z of the heads that it serves; their b, their a.
DeltaInputs project_by_head(Graph& g, const RecurrentConfig& r, Value x) {
  const int64_t group = r.heads / r.key_heads, values = group * r.v_dim, k = r.k_dim;
  const auto part = [&](const char* name, int64_t begin, int64_t size, AxisSize axis) {
    const FusedPart rows = rows_of_runs(name, r.key_heads, 2 * k + 2 * values, begin, size);
    return g.linear_part(x, "in_proj_qkvz", rows, axis);
  };
  const auto by_head = [&](const char* name, int64_t begin) {
    const FusedPart rows = rows_of_runs(name, r.key_heads, 2 * group, begin, group);
    return g.linear_part(x, "in_proj_ba", rows, head_axis(r));
  };
  return {.q = part("q", 0, k, key_axis(r)),
          .k = part("k", k, k, key_axis(r)),
          .v = part("v", 2 * k, values, value_axis(r)),
          .z = part("z", 2 * k + values, values, value_axis(r)),
          .a = by_head("a", group),
          .b = by_head("b", 0)};
}

// All q, all k, all v in one matrix, the others apart.
DeltaInputs project_apart(Graph& g, const RecurrentConfig& r, Value x) {
  const int64_t keys = r.key_heads * r.k_dim, all = 2 * keys + r.heads * r.v_dim;
  const auto part = [&](const char* name, int64_t begin, AxisSize axis) {
    return g.linear_part(x, "in_proj_qkv", rows_of_runs(name, 1, all, begin, axis.columns()), axis);
  };
  return {.q = part("q", 0, key_axis(r)),
          .k = part("k", keys, key_axis(r)),
          .v = part("v", 2 * keys, value_axis(r)),
          .z = g.linear(x, "in_proj_z", value_axis(r)),
          .a = g.linear(x, "in_proj_a", head_axis(r)),
          .b = g.linear(x, "in_proj_b", head_axis(r))};
}

template <DeltaInputs (*project)(Graph&, const RecurrentConfig&, Value)>
Value mixer(Graph& g, const Config& c, Value x, int layer) {
  if (!c.recurrent.in_layer[static_cast<size_t>(layer)]) return gated_attention(g, c, x, layer);
  const Scope scope(g, "linear_attn");
  return gated_delta_net(g, c, project(g, c.recurrent, x));
}

void build_next(Graph& g, const Config& c) {
  build_layers(g, c, {.attention = mixer<project_by_head>, .mlp = old_qwen_experts});
}
void build_3_5(Graph& g, const Config& c) {
  build_layers(g, c, {.attention = mixer<project_apart>});
}
void build_3_5_moe(Graph& g, const Config& c) {
  build_layers(g, c, {.attention = mixer<project_apart>, .mlp = old_qwen_experts});
}

constexpr Family family(FamilyExperts experts, double ffn_per_hidden = 0) {
  return {.qk_norm = kHeadNorms,
          .norm_plus_one = true,
          .partial_rotary = 0.25,
          .ffn_per_hidden = ffn_per_hidden,
          .head_dim = 256,
          .recurrent_type = "linear_attention",
          .keys = {"attention_bias", "layer_types", "full_attention_interval", "attn_output_gate",
                   "linear_conv_kernel_dim", "linear_key_head_dim", "linear_value_head_dim",
                   "linear_num_key_heads", "linear_num_value_heads"},
          .experts = experts,
          .check = check_output_gate,
          .refine = read_delta_rule};
}

constexpr FamilyExperts experts(int64_t count, int64_t chosen, bool next) {
  return {.count_key = "num_experts",
          .count = count,
          .chosen = chosen,
          .size = 512,
          .shared_size = 512,
          .always_renormalised = !next,
          .by_layer = next};
}

// Qwen3.5 has experts in every layer or in none: with them there is no width of a dense MLP.
constexpr Architecture kRows[] = {
    {"Qwen3NextForCausalLM", build_next, family(experts(512, 10, true))},
    {"Qwen3_5ForCausalLM", build_3_5, family({})},
    {"Qwen3_5MoeForCausalLM", build_3_5_moe, family(experts(256, 8, false), 1)},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::qwen3_next

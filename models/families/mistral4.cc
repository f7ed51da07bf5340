// SPDX-License-Identifier: Apache-2.0
// Mistral 4 (Mistral Small 4): DeepSeek-V3's latent attention with queries scaled by their
// position; experts by softmax, in stacks, beside shared ones.
#include "models/config_keys.h"
#include "models/expert_blocks.h"
#include "models/families/families.h"
#include "models/latent_blocks.h"

namespace lockstep::families::mistral4 {
namespace {

Value experts(Graph& g, const Config& c, Value x, int layer) {
  if (!c.experts.in_layer[static_cast<size_t>(layer)]) return old_gated_mlp(g, c, x, layer);
  const Scope scope(g, "mlp");
  const Routes routes = g.route(g.router(x, "gate", c.experts.count),
                                with_config({.best_two = c.experts.groups > 1}, c));
  const Value routed = g.combine(stacked_experts(g, c, x, routes), routes);
  return g.add(routed, shared_expert(g, c, x, "shared_experts"));
}

void build_mistral4(Graph& g, const Config& c) {
  build_layers(g, c, {.attention = old_latent_attention, .mlp = experts});
}

absl::Status check_mistral4(const Json& json) {
  const OnlyValue only[] = {{"rope_interleave", true}};
  return check_only(json, only);
}

constexpr Architecture kRows[] = {
    {"Mistral4ForCausalLM",
     build_mistral4,
     {.rope_interleaved = true,
      .positions = 1048576,
      .defaults = R"({"head_dim": 64, "kv_lora_rank": 256, "qk_nope_head_dim": 64,
          "v_head_dim": 128, "first_k_dense_replace": 0, "rope_parameters": {
          "type": "yarn", "rope_theta": 10000.0, "factor": 128.0, "beta_fast": 32.0,
          "beta_slow": 1.0, "original_max_position_embeddings": 8192, "mscale_all_dim": 1.0,
          "mscale": 1.0, "llama_4_scaling_beta": 0.1}})",
      .keys = {"q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "v_head_dim", "qk_head_dim",
               "attention_bias", "rope_interleave", "llama_4_scaling_beta"},
      .names = {{{"qk_rope_head_dim", "head_dim", /*wins=*/true}}},
      .experts = {.count_key = "n_routed_experts",
                  .count = 128,
                  .chosen = 4,
                  .size = 2048,
                  .renormalised = true,
                  .grouped = true},
      .check = check_mistral4,
      .refine = read_latent}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::mistral4

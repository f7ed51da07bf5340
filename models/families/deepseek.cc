// SPDX-License-Identifier: Apache-2.0
// DeepSeek-V2 and V3 (Kimi K2 is one), and GLM-4.7-Flash: latent attention; experts of groups
// beside shared ones, behind dense first layers.
#include "base/status.h"
#include "models/config_keys.h"
#include "models/expert_blocks.h"
#include "models/families/deepseek_v3.h"
#include "models/families/families.h"

namespace lockstep::families::deepseek {
namespace {

Value softmax_experts(Graph& g, const Config& c, Value x, int layer) {
  return grouped_experts(g, c, x, layer, {});
}

void build_v2(Graph& g, const Config& c) {
  build_layers(g, c, {.attention = old_latent_attention, .mlp = softmax_experts});
}

// Group-limited choice is by the groups' best scores; a greedy one knows no groups.
absl::Status check_v2(const Json& json) {
  const OnlyValue only[] = {
      {"moe_layer_freq", 1}, {"norm_topk_prob", false}, {"scoring_func", "softmax"}};
  RETURN_IF_ERROR(check_only(json, only));
  ASSIGN_OR_RETURN(const std::string method, get_string(json, "topk_method", "greedy"));
  if (method == "group_limited_greedy") return absl::OkStatus();
  if (method != "greedy") {
    return invalid_argument(
        "topk_method: \"{}\" is not supported; supported: greedy, group_limited_greedy",
        printable(method));
  }
  const OnlyValue one_group[] = {{"n_group", 1}};
  return check_only(json, one_group);
}

constexpr Family v2() {
  Family family = kDeepseekV3;
  family.defaults = R"({"head_dim": 64, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
      "v_head_dim": 128, "n_shared_experts": 2, "first_k_dense_replace": 0})";
  family.experts.count = 64;
  family.experts.chosen = 0;
  family.experts.size = 1407;
  family.experts.renormalised = false;
  family.check = check_v2;
  return family;
}

constexpr Family flash() {
  Family family = kDeepseekV3;
  family.norm_eps = 1e-5;
  family.defaults = R"({"head_dim": 64, "kv_lora_rank": 512, "qk_nope_head_dim": 192,
      "v_head_dim": 256, "routed_scaling_factor": 1.8})";
  family.experts.count = 64;
  family.experts.chosen = 4;
  family.experts.size = 1536;
  return family;
}

constexpr Architecture kRows[] = {
    {"DeepseekV2ForCausalLM", build_v2, v2()},
    {"DeepseekV3ForCausalLM", build_deepseek_v3, kDeepseekV3},
    {"Glm4MoeLiteForCausalLM", build_deepseek_v3, flash()},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::deepseek

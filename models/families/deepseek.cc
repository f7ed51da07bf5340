// SPDX-License-Identifier: Apache-2.0
// DeepSeek-V2 and V3 (including Kimi K2), and GLM-4.7-Flash: latent attention; grouped experts and
// shared ones, after dense first layers. DeepSeek-V3.2 and GLM-5: like V3, but a query sees only
// the index_topk positions that an indexer chooses. With up to index_topk positions the indexer has
// no effect. So the context is limited to index_topk positions, and the indexer's tensors are not
// read.
#include <algorithm>
#include <utility>

#include "models/blocks/latent.h"
#include "models/blocks/llama.h"
#include "models/families/families.h"

namespace lockstep::families::deepseek {
namespace {

// The attention that all of them share.
Llama read_deepseek(Keys& keys, const char* defaults, double eps = 1e-6) {
  // The reference sets head_dim to qk_rope_head_dim, whatever head_dim the file has.
  keys.rename("qk_rope_head_dim", "head_dim", /*wins=*/true);
  keys.defaults(defaults);
  Llama m(keys,
          {.norm = read_rms_norm(keys, eps), .rope = {.interleaved = true, .whole_heads = true}});
  m.attention.set_bias(keys.flag("attention_bias", false));
  return m;
}

LanguageModel model_of(const Llama& m, const Latent& latent, const Mixture& experts,
                       const Block& mlp) {
  LanguageModel d = m.model(latent_attention(m.attention, latent), mlp);
  d.mixture = experts;
  return d;
}

LanguageModel v2(Keys& keys) {
  keys.only("norm_topk_prob", false);
  keys.only("scoring_func", "softmax");
  keys.ignore("rope_interleave");
  // "group_limited_greedy" compares groups by their best scores; "greedy" has no groups.
  keys.only_one_of("topk_method", {"greedy", "group_limited_greedy"});
  if (keys.text("topk_method", "greedy") == "greedy") keys.only("n_group", 1);
  Llama m = read_deepseek(keys, R"({"head_dim": 64, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
      "v_head_dim": 128, "n_shared_experts": 2, "first_k_dense_replace": 0})");
  const Latent latent = read_latent(keys, m.attention);
  const Mixture experts = read_mixture(keys, m.sizes, m.mlp, "n_routed_experts",
                                       {.count = 64, .size = 1407, .grouped = true});
  return model_of(m, latent, experts, grouped_experts(experts, m.mlp, routing(experts)));
}

constexpr MixtureDefaults kExpertsOfV3 = {
    .count = 256, .chosen = 8, .size = 2048, .renormalised = true, .grouped = true};

LanguageModel v3_model(Keys& keys, Llama m, const MixtureDefaults& missing = kExpertsOfV3) {
  keys.only("scoring_func", "sigmoid");
  keys.only("topk_method", "noaux_tc");
  keys.only("rope_interleave", true);
  const Latent latent = read_latent(keys, m.attention);
  const Mixture experts = read_mixture(keys, m.sizes, m.mlp, "n_routed_experts", missing);
  return model_of(m, latent, experts, biased_experts(experts, m.mlp));
}

constexpr char kV3[] = R"({"head_dim": 64, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
    "v_head_dim": 128, "n_group": 8, "topk_group": 4, "routed_scaling_factor": 2.5,
    "first_k_dense_replace": 3})";

LanguageModel v3(Keys& keys) { return v3_model(keys, read_deepseek(keys, kV3)); }

LanguageModel glm4_flash(Keys& keys) {
  const char* defaults = R"({"head_dim": 64, "kv_lora_rank": 512, "qk_nope_head_dim": 192,
      "v_head_dim": 256, "routed_scaling_factor": 1.8})";
  return v3_model(keys, read_deepseek(keys, defaults, 1e-5),
                  {.count = 64, .chosen = 4, .size = 1536, .renormalised = true, .grouped = true});
}

// Limits the context to index_topk positions.
LanguageModel indexed(Keys& keys, Llama m) {
  m.mlp.bias = keys.flag("mlp_bias", false);  // For the dense layers.
  const Json types = keys.list("layer_types", static_cast<size_t>(m.sizes.layers));
  for (size_t i = 0; i < types.size(); ++i) {
    const Json known = {"full_attention", "attention", "indexed_attention",
                        "deepseek_sparse_attention"};
    if (std::ranges::find(known, types[i]) != known.end()) continue;
    keys.fail(fmt::format("layer_types[{}]", i), "{} is not supported; supported: {}",
              describe(types[i]), known.dump());
  }
  LanguageModel d = v3_model(keys, std::move(m));
  d.max_positions = keys.count("index_topk", kMaxPositions, 2048);
  keys.ignore("index_* indexer_*");
  return d;
}

LanguageModel v3_2(Keys& keys) { return indexed(keys, read_deepseek(keys, kV3)); }

LanguageModel glm5(Keys& keys) {
  const char* defaults = R"({"head_dim": 64, "kv_lora_rank": 512, "qk_nope_head_dim": 192,
      "v_head_dim": 256, "routed_scaling_factor": 2.5, "first_k_dense_replace": 3})";
  return indexed(keys, read_deepseek(keys, defaults, 1e-5));
}

constexpr Architecture kRows[] = {
    {"DeepseekV2ForCausalLM", v2},          {"DeepseekV3ForCausalLM", v3},
    {"Glm4MoeLiteForCausalLM", glm4_flash}, {"DeepseekV32ForCausalLM", v3_2},
    {"GlmMoeDsaForCausalLM", glm5},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::deepseek

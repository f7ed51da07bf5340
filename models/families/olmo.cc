// SPDX-License-Identifier: Apache-2.0
// OLMoE: experts, norms of q and k over all heads together, and a bound on them and v. OLMo 2 and
// 3: norms behind attention and MLP in place of those before them, and of q and k over all heads
// together. OLMo 3 has windows, and scales rotary angles where there is none.
#include "base/status.h"
#include "models/expert_blocks.h"
#include "models/families/families.h"

namespace lockstep::families::olmo {
namespace {

void build_olmo(Graph& g, const Config& c) {
  build_layers(g, c,
               {.attention_norm = nullptr,
                .attention_out_norm = "post_attention_layernorm",
                .mlp_norm = nullptr,
                .mlp_out_norm = "post_feedforward_layernorm"});
}

void build_olmoe(Graph& g, const Config& c) { build_layers(g, c, {.mlp = old_qwen_experts}); }

absl::Status refine_olmoe(const Json& json, Config& c) {
  if (json.value("clip_qkv", Json()).is_null()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const double bound, get_double(json, "clip_qkv"));
  if (!(bound > 0 && bound <= 1e6)) {
    return invalid_argument("clip_qkv: must be a number above 0 and up to 1e6, found {}", bound);
  }
  c.qkv_clamp = static_cast<float>(bound);
  return absl::OkStatus();
}

constexpr Architecture kRows[] = {
    {"OlmoeForCausalLM",
     build_olmoe,
     {.qk_norm = kNormOverAllHeads,
      .norm_eps = 1e-5,
      .keys = {"attention_bias", "clip_qkv"},
      .experts = {.count_key = "num_experts", .count = 64, .chosen = 8},
      .refine = refine_olmoe}},
    {"Olmo2ForCausalLM",
     build_olmo,
     {.qk_norm = kNormOverAllHeads, .norm_eps = 1e-5, .keys = {"attention_bias"}}},
    {"Olmo3ForCausalLM",
     build_olmo,
     {.qk_norm = kNormOverAllHeads,
      .norm_eps = 1e-5,
      .rope_theta = 500000,
      .window_rope_theta = 500000,  // Whatever rope_theta is.
      .window = WindowRule::kPattern,
      .default_window = 4096,
      .full_every = 4,
      .keys = {"attention_bias", "sliding_window", "layer_types"}}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::olmo

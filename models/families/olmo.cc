// SPDX-License-Identifier: Apache-2.0
// OLMoE: experts, norms of q and k over all heads together, and a clamp on q, k and v. OLMo 2 and
// 3: norms after attention and MLP instead of before them, and of q and k over all heads together.
// OLMo 3 has windows, and scales rotary angles in layers without one.
#include "models/blocks/llama.h"
#include "models/families/families.h"

namespace lockstep::families::olmo {
namespace {

Llama read_olmo(Keys& keys, const RopeFacts& rope = {}) {
  Llama m(keys, {.norm = read_rms_norm(keys, 1e-5), .rope = rope});
  m.attention.norm_heads(keys, kNormOverAllHeads);
  m.attention.set_bias(keys.flag("attention_bias", false));
  return m;
}

LanguageModel olmoe(Keys& keys) {
  Llama m = read_olmo(keys);
  if (keys.has("clip_qkv")) m.attention.qkv_clamp = keys.factor("clip_qkv");
  const Mixture experts =
      read_mixture(keys, m.sizes, m.mlp, "num_experts", {.count = 64, .chosen = 8});
  return m.model(experts, qwen_experts(experts, m.mlp));
}

LanguageModel olmo2(Keys& keys) { return post_norm(read_olmo(keys).model()); }

LanguageModel olmo3(Keys& keys) {
  // rope_theta does not change the base in layers with a window.
  Llama m = read_olmo(keys, {.theta = 500000, .window_theta = 500000});
  m.attention.windows = windows_by_pattern(keys, m.sizes.layers, 4096, 4);
  return post_norm(m.model());
}

constexpr Architecture kRows[] = {
    {"OlmoeForCausalLM", olmoe}, {"Olmo2ForCausalLM", olmo2}, {"Olmo3ForCausalLM", olmo3}};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::olmo

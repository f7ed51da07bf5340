// SPDX-License-Identifier: Apache-2.0
// StableLM and its older form, StableLM epoch: Llama's blocks with layer norms.
#include "models/blocks/llama.h"
#include "models/families/families.h"

namespace lockstep::families::stablelm {
namespace {

Llama read_stablelm(Keys& keys) {
  Llama m(keys, {.norm = read_layer_norm(keys), .rope = {.part = 0.25}});
  m.attention.qkv_bias = keys.flag("use_qkv_bias", false);
  return m;
}

LanguageModel stablelm(Keys& keys) {
  keys.rename("layer_norm_eps", "rms_norm_eps");
  keys.rename("qk_layernorm", "use_qk_norm");
  Llama m = read_stablelm(keys);
  m.attention.norm_heads_if_asked(keys, {.over = QkNorm::Over::kHead,
                                         .centred = true,
                                         .by_head = true,
                                         .q = "q_layernorm.norms.*",
                                         .k = "k_layernorm.norms.*"});
  LanguageModel d = m.model();
  d.parallel_norms = keys.flag("use_parallel_residual", false) ? 1 : 0;
  return d;
}

LanguageModel stablelm_epoch(Keys& keys) {
  keys.rename("norm_eps", "rms_norm_eps");
  keys.rename("rope_pct", "partial_rotary_factor");
  keys.rename("num_heads", "num_attention_heads");
  keys.only("rotary_scaling_factor", 1);
  return read_stablelm(keys).model();
}

constexpr Architecture kRows[] = {{"StableLmForCausalLM", stablelm},
                                  {"StableLMEpochForCausalLM", stablelm_epoch}};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::stablelm

// SPDX-License-Identifier: Apache-2.0
// Phi-1 to Phi-2: one layer norm for both attention and MLP; a part of each head is rotated.
#include "models/blocks/llama.h"
#include "models/families/families.h"

namespace lockstep::families::phi {
namespace {

LanguageModel phi(Keys& keys) {
  keys.rename("layer_norm_eps", "rms_norm_eps");
  keys.rename("qk_layernorm", "use_qk_norm");
  keys.only("attention_bias mlp_bias use_parallel_residual", true);
  Llama m(keys, {.norm = read_layer_norm(keys), .activation = "gelu_new", .rope = {.part = 0.5}});
  m.attention.norm_heads_if_asked(keys, {.over = QkNorm::Over::kHead,
                                         .centred = true,
                                         .bias = true,
                                         .q = "q_layernorm",
                                         .k = "k_layernorm"});
  m.attention.set_bias(true);
  m.mlp.bias = true;
  LanguageModel d = m.model(separate_attention(m.attention, "self_attn", "self_attn.dense"),
                            plain_mlp(m.mlp, "mlp.fc1", "mlp.fc2"));
  d.parallel_norms = 1;
  d.norm = "model.final_layernorm";
  d.head_bias = true;
  return d;
}

constexpr Architecture kRows[] = {{"PhiForCausalLM", phi}};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::phi

// SPDX-License-Identifier: Apache-2.0
// Gemma: Llama's blocks, with norms before and after each block in Gemma 2 and 3.
#include <cmath>

#include "models/blocks/llama.h"
#include "models/families/families.h"

namespace lockstep::families::gemma {
namespace {

// Reads the keys that Gemma 1, 2 and 3 share. Norms multiply by 1 + w, and files store w.
Llama read_gemma(Keys& keys, int64_t kv_heads, const RopeFacts& rope = {}) {
  keys.rename("hidden_activation", "hidden_act");
  Norm norm = read_rms_norm(keys);
  norm.plus = 1;
  Llama m(keys, {.sizes = {.kv_heads = kv_heads, .head_dim = 256},
                 .norm = norm,
                 .activation = "gelu_pytorch_tanh",
                 .tied = true,
                 .rope = rope});
  m.attention.set_bias(keys.flag("attention_bias", false));
  return m;
}

LanguageModel model_of(const Llama& m) {
  LanguageModel d = m.model();
  d.embedding_multiplier = static_cast<float>(std::sqrt(static_cast<double>(m.sizes.hidden)));
  return d;
}

LanguageModel sandwich_norm(LanguageModel d) {
  d.attention_out_norm = "post_attention_layernorm";
  d.mlp_norm = "pre_feedforward_layernorm";
  d.mlp_out_norm = "post_feedforward_layernorm";
  return d;
}

LanguageModel gemma(Keys& keys) { return model_of(read_gemma(keys, 16)); }

LanguageModel gemma2(Keys& keys) {
  keys.rename("sliding_window_size", "sliding_window");
  Llama m = read_gemma(keys, 4);
  m.attention.scale = inverse_root(keys.factor("query_pre_attn_scalar", 256));
  m.attention.cap = keys.cap("attn_logit_softcapping", 50);
  m.attention.windows = windows_by_pattern(keys, m.sizes.layers, 4096, 2);
  LanguageModel d = sandwich_norm(model_of(m));
  d.logits_cap = keys.cap("final_logit_softcapping", 30);
  return d;
}

LanguageModel gemma3(Keys& keys) {
  // The text_config of published wrappers contains only values that differ from these.
  keys.defaults(R"({"vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216,
      "num_hidden_layers": 26, "num_attention_heads": 8, "max_position_embeddings": 131072})");
  const double window_theta = keys.number("rope_local_base_freq", 1, 1e15, 10000);
  Llama m = read_gemma(keys, 4, {.theta = 1e6, .window_theta = window_theta});
  m.attention.norm_heads(keys);
  m.attention.scale = inverse_root(keys.factor("query_pre_attn_scalar", 256));
  keys.cap("attn_logit_softcapping");  // The reference has the key but does not cap scores by it.
  m.attention.windows = windows_by_pattern(keys, m.sizes.layers, 4096, 6, /*reads_pattern=*/true);
  LanguageModel d = sandwich_norm(model_of(m));
  d.logits_cap = keys.cap("final_logit_softcapping");
  return d;
}

constexpr Architecture kRows[] = {
    {"GemmaForCausalLM", gemma}, {"Gemma2ForCausalLM", gemma2}, {"Gemma3ForCausalLM", gemma3}};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::gemma

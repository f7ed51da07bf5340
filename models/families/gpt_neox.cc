// SPDX-License-Identifier: Apache-2.0
// GPT-NeoX, Pythia, RedPajama, Dolly: layer norms, a part of each head rotated, q, k and v of each
// head together in one matrix; attention and MLP are parallel, each with its norm, or serial.
#include "models/blocks/llama.h"
#include "models/families/families.h"

namespace lockstep::families::gpt_neox {
namespace {

LanguageModel gpt_neox(Keys& keys) {
  keys.rename("layer_norm_eps", "rms_norm_eps");
  keys.rename("rotary_pct", "partial_rotary_factor");
  keys.rename("rotary_emb_base", "rope_theta");
  keys.only("mlp_bias", true);
  Llama m(keys, {.norm = read_layer_norm(keys), .activation = "gelu", .rope = {.part = 0.25}});
  m.attention.set_bias(keys.flag("attention_bias", true));
  m.mlp.bias = true;
  LanguageModel d =
      m.model(grouped_attention(m.attention, "attention.query_key_value", "attention.dense"),
              plain_mlp(m.mlp, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h"));
  d.parallel_norms = keys.flag("use_parallel_residual", true) ? 2 : 0;
  d.embedding = "gpt_neox.embed_in";
  d.layers = "gpt_neox.layers";
  d.norm = "gpt_neox.final_layer_norm";
  d.head = "embed_out";
  return d;
}

constexpr Architecture kRows[] = {{"GPTNeoXForCausalLM", gpt_neox}};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::gpt_neox

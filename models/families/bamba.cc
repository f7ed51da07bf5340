// SPDX-License-Identifier: Apache-2.0
// Bamba: Mamba-2 instead of attention in most layers; attention rotates half of each head.
#include <vector>

#include "models/blocks/llama.h"
#include "models/blocks/mamba.h"
#include "models/families/families.h"

namespace lockstep::families::bamba {
namespace {

LanguageModel bamba(Keys& keys) {
  keys.rename("layers_block_type", "layer_types");
  keys.only("mlp_bias", false);
  keys.ignore("attn_layer_indices attn_rotary_emb z_loss_coefficient");
  Llama m(keys, {.sizes = {.kv_heads = 8, .positions = 262144},
                 .norm = read_rms_norm(keys, 1e-5),
                 .rope = {.part = 0.5}});
  m.attention.set_bias(keys.flag("attention_bias", false));
  std::vector<bool> recurs(static_cast<size_t>(m.sizes.layers), true);
  if (!keys.has("layer_types")) {
    for (const size_t i : keys.layers("attn_layer_indices", m.sizes.layers)) recurs[i] = false;
  }
  read_recurrent_types(keys, recurs, "mamba");
  const Mamba mamba = read_mamba(keys, m.sizes, m.norm);
  LanguageModel d =
      m.model(mamba_or_attention(mamba, m.attention, recurs),
              gated_mlp(m.mlp, {"gate_proj", "up_proj", "down_proj"}, "feed_forward"));
  d.mlp_norm = "pre_ff_layernorm";
  d.norm = "model.final_layernorm";
  return d;
}

constexpr Architecture kRows[] = {{"BambaForCausalLM", bamba}};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::bamba

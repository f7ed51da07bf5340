// SPDX-License-Identifier: Apache-2.0
// MPT with ALiBi: neither linears nor norms have biases.
#include <bit>

#include "models/blocks/llama.h"
#include "models/families/families.h"

namespace lockstep::families::mpt {
namespace {

// If the number of heads is not a power of two, the slopes are taken from those of the next higher
// power of two, in this order: number 2, 4, 6, ..., then 1, 3, 5, ...
std::vector<float> mpt_slopes(int64_t heads) {
  const auto above = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(heads)));
  const std::vector<float> all = alibi_slopes(above);
  if (above == heads) return all;
  std::vector<float> slopes;
  for (size_t i = 1; i < all.size(); i += 2) slopes.push_back(all[i]);
  for (size_t i = 0; i < all.size(); i += 2) slopes.push_back(all[i]);
  slopes.resize(static_cast<size_t>(heads));
  return slopes;
}

LanguageModel mpt(Keys& keys) {
  keys.rename("d_model", "hidden_size");
  keys.rename("n_layers", "num_hidden_layers");
  keys.rename("n_heads", "num_attention_heads");
  keys.rename("max_seq_len", "max_position_embeddings");
  keys.rename("layer_norm_epsilon", "rms_norm_eps");
  keys.only("no_bias", true);
  keys.ignore("learned_pos_emb");  // With ALiBi no position is learned, whatever the key says.
  Llama m(keys, {.sizes = {.ffn_per_hidden = 4, .positions = 2048},
                 .norm = read_layer_norm(keys, /*bias=*/false),
                 .activation = "gelu",
                 .tied = true});
  keys.inside("attn_config", [&](Keys& own) {
    own.only("alibi", true);
    own.only("alibi_bias_max", 8);
    own.only("attn_type", "multihead_attention");
    own.only("qk_ln prefix_lm rope", false);
    own.only("sliding_window_size", -1);
    // Nothing is rotated, so these have no effect.
    own.ignore("attn_impl rope_impl rope_dail_config rope_hf_config rope_theta dtype");
    m.attention.qkv_clamp = static_cast<float>(own.number("clip_qkv", 0, 1e6, 0));
    const double scale = own.number("softmax_scale", 0, 1e6, 0);
    if (scale > 0) m.attention.scale = static_cast<float>(scale);
  });
  m.mlp.width = m.sizes.ffn = keys.count("expansion_ratio", 64, 4) * m.sizes.hidden;
  m.attention.slopes = mpt_slopes(m.sizes.heads);
  m.attention.rotate_nothing();
  LanguageModel d = m.model(stacked_attention(m.attention, "attn.Wqkv", "attn.out_proj"),
                            plain_mlp(m.mlp, "ffn.up_proj", "ffn.down_proj"));
  d.embedding = "transformer.wte";
  d.layers = "transformer.blocks";
  d.attention_norm = "norm_1";
  d.mlp_norm = "norm_2";
  d.norm = "transformer.norm_f";
  return d;
}

constexpr Architecture kRows[] = {{"MPTForCausalLM", mpt}, {"MptForCausalLM", mpt}};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::mpt

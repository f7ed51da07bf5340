// SPDX-License-Identifier: Apache-2.0
// Hunyuan's dense models: Llama's blocks, with norms within each head of q and k after rotation.
#include "models/blocks/llama.h"
#include "models/families/families.h"

namespace lockstep::families::hunyuan {
namespace {

Value attend(Graph& g, const Attention& a, Value x, int layer) {
  auto [q, k, v] = separate_qkv(g, a, x, "self_attn");
  const Scope scope(g, "self_attn");
  const HeadNorm norm = {.eps = a.norm.eps, .head_dim = a.head_dim};
  q = g.head_norm(g.rope(q, a.ropes.all), "query_layernorm", norm);
  k = g.head_norm(g.rope(k, a.ropes.all), "key_layernorm", norm);
  return g.linear(g.attention(q, k, v, attention_attrs(a, layer)), "o_proj", hidden_axis(a.hidden),
                  a.out_bias);
}

LanguageModel hunyuan(Keys& keys) {
  keys.rename("attention_head_dim", "head_dim");
  keys.only("use_qk_norm use_rotary_pos_emb", true);
  keys.only("norm_type", "rms");
  keys.only("num_experts", 1);
  // For other tasks, or ids that nothing reads.
  keys.ignore(
      "org_vocab_size eod_token_id pad_id text_start_id text_end_id im_start_id im_end_id "
      "im_newline_id mask_init_id cla_share_factor class_num dense_list pool_type");
  Llama m(keys, {.sizes = {.positions = 2048},
                 .norm = read_rms_norm(keys, 1e-5),
                 .rope = {.fixed_alpha = true}});
  m.attention.set_bias(keys.flag("attention_bias", false));
  return m.model(
      [a = m.attention](Graph& g, Value x, int layer) { return attend(g, a, x, layer); });
}

constexpr Architecture kRows[] = {{"HunYuanDenseV1ForCausalLM", hunyuan}};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::hunyuan

// SPDX-License-Identifier: Apache-2.0
// OPT: learned positions, the first of which has row 2; norms before the blocks, or after them
// (350m, which also has narrow embeddings, projected in and out).
#include <utility>

#include "models/blocks/llama.h"
#include "models/families/families.h"

namespace lockstep::families::opt {
namespace {

constexpr int64_t kFirstPosition = 2;

LanguageModel opt(Keys& keys) {
  keys.rename("ffn_dim", "intermediate_size");
  keys.rename("activation_function", "hidden_act");
  keys.rename("enable_bias", "attention_bias");
  keys.only("layer_norm_elementwise_affine", true);
  Llama m(keys, {.sizes = {.positions = 2048},
                 .norm = read_layer_norm(keys),
                 .activation = "relu",
                 .tied = true});
  m.mlp.bias = keys.flag("attention_bias", true);
  m.attention.set_bias(m.mlp.bias);
  m.attention.rotate_nothing();
  LanguageModel d = m.model(separate_attention(m.attention, "self_attn", "self_attn.out_proj"),
                            plain_mlp(m.mlp, "fc1", "fc2"));
  d.embedding_width = keys.count("word_embed_proj_dim", kMaxWidth, m.sizes.hidden);
  d.embedding = "model.decoder.embed_tokens";
  d.positions = "model.decoder.embed_positions";
  d.position_rows = m.sizes.positions + kFirstPosition;
  d.position_offset = kFirstPosition;
  d.project_in = "model.decoder.project_in";
  d.project_out = "model.decoder.project_out";
  d.layers = "model.decoder.layers";
  d.attention_norm = "self_attn_layer_norm";
  d.mlp_norm = "final_layer_norm";
  d.norm = "model.decoder.final_layer_norm";
  if (!keys.flag("do_layer_norm_before", true)) {
    d.attention_end_norm = std::exchange(d.attention_norm, nullptr);
    d.mlp_end_norm = std::exchange(d.mlp_norm, nullptr);
    d.norm = nullptr;
  }
  return d;
}

constexpr Architecture kRows[] = {{"OPTForCausalLM", opt}};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::opt

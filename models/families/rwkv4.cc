// SPDX-License-Identifier: Apache-2.0
// RWKV 4 (https://arxiv.org/abs/2305.13048), with the names of transformers.
#include "models/blocks/rwkv.h"
#include "models/families/families.h"

namespace lockstep::families::rwkv4 {
namespace {

Value time_mix(Graph& g, int64_t hidden, int64_t width, Value x) {
  const Scope scope(g, "attention");
  const AxisSize axis = ffn_axis(width);
  const TokenShift rows = token_shift(g, x);
  const Value k = g.linear(mix_own(g, rows, "time_mix_key"), "key", axis);
  const Value v = g.linear(mix_own(g, rows, "time_mix_value"), "value", axis);
  const Value r = g.linear(mix_own(g, rows, "time_mix_receptance"), "receptance", axis);
  const Value y = g.wkv(k, v, "time_decay", "time_first");
  return g.linear(g.mul(g.map(r, Function::kSigmoid), y), "output", hidden_axis(hidden));
}

Value mlp(Graph& g, const Mlp& m, Value x) {
  const Scope scope(g, "feed_forward");
  const TokenShift rows = token_shift(g, x);
  const Value k = mix_own(g, rows, "time_mix_key");
  return channel_mix(g, m, k, mix_own(g, rows, "time_mix_receptance"));
}

LanguageModel rwkv4(Keys& keys) {
  keys.rename("layer_norm_epsilon", "rms_norm_eps");
  keys.rename("context_length", "max_position_embeddings");
  // rescale_every halves values to keep float16 in its range and has no other effect.
  keys.ignore("rescale_every");
  const Llama m = read_rwkv(  // RWKV 4 has no heads.
      keys, {.ffn_per_hidden = 4, .head_dim = 2, .positions = 1024});
  const int64_t hidden = m.sizes.hidden;
  const int64_t width = keys.count("attention_hidden_size", kMaxWidth, hidden);
  LanguageModel d = m.model([=](Graph& g, Value x, int) { return time_mix(g, hidden, width, x); },
                            [half = m.mlp](Graph& g, Value x, int) { return mlp(g, half, x); });
  d.embedding = "rwkv.embeddings";
  d.embedding_norm = "rwkv.blocks.0.pre_ln";
  d.layers = "rwkv.blocks";
  d.attention_norm = "ln1";
  d.mlp_norm = "ln2";
  d.norm = "rwkv.ln_out";
  d.head = "head";
  return d;
}

constexpr Architecture kRows[] = {{"RwkvForCausalLM", rwkv4}};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::rwkv4

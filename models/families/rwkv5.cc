// SPDX-License-Identifier: Apache-2.0
// RWKV 5 (Eagle, https://arxiv.org/abs/2404.05892), with the names of the published files.
#include "models/blocks/rwkv.h"
#include "models/families/families.h"

namespace lockstep::families::rwkv5 {
namespace {

Value time_mix(Graph& g, const RwkvHeads& h, Value x) {
  const Scope scope(g, "att");
  const TokenShift rows = token_shift(g, x);
  const auto mixed = [&](const char* name) { return mix_own(g, rows, name); };
  return recurrent_time_mix(g, h,
                            {.r = g.linear(mixed("time_mix_r"), "receptance", h.axis()),
                             .k = g.linear(mixed("time_mix_k"), "key", h.axis()),
                             .v = g.linear(mixed("time_mix_v"), "value", h.axis()),
                             .decay = g.broadcast("time_decay", h.axis(), {h.count, h.dim}),
                             .gate = mixed("time_mix_g")});
}

Value mlp(Graph& g, const Mlp& m, Value x) {
  const Scope scope(g, "ffn");
  const TokenShift rows = token_shift(g, x);
  const Value k = mix_own(g, rows, "time_mix_k");
  return channel_mix(g, m, k, mix_own(g, rows, "time_mix_r"));
}

LanguageModel rwkv5(Keys& keys) {
  keys.rename("layer_norm_epsilon", "rms_norm_eps");
  keys.rename("head_size", "head_dim");
  keys.rename("context_length", "max_position_embeddings");
  keys.default_from_tensor("intermediate_size", "blocks.0.ffn.key.weight", 0);
  keys.only("model_version", "5_2");
  keys.ignore("rescale_every");
  Llama m = read_rwkv(keys, {.ffn_per_hidden = 3.5, .head_dim = 64, .positions = 4096});
  const RwkvHeads heads = read_rwkv_heads(keys, m);
  const int64_t width = keys.count("attention_hidden_size", kMaxWidth, heads.hidden);
  if (width != heads.hidden) {
    keys.fail("attention_hidden_size", "must be hidden_size ({}), found {}", heads.hidden, width);
  }
  return rwkv_model(
      m, [=](Graph& g, Value x, int) { return time_mix(g, heads, x); },
      [half = m.mlp](Graph& g, Value x, int) { return mlp(g, half, x); });
}

// The first published files name the architecture of RWKV 4.
bool is_rwkv5(const Json& json) { return json.value("model_type", Json()) == "rwkv5"; }

constexpr Architecture kRows[] = {
    {"Rwkv5ForCausalLM", rwkv5},
    {"RwkvForCausalLM", rwkv5, is_rwkv5},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::rwkv5

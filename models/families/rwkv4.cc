// SPDX-License-Identifier: Apache-2.0
// RWKV 4 (https://arxiv.org/abs/2305.13048), with the names of transformers.
#include "models/blocks.h"
#include "models/families/families.h"
#include "models/rwkv_blocks.h"

namespace lockstep::families::rwkv4 {
namespace {

Value time_mix(Graph& g, const Config& c, Value x, int) {
  const Scope scope(g, "attention");
  const AxisSize width = {Axis::kFfn, c.rwkv.width, 1};
  const TokenShift rows = token_shift(g, x);
  const Value k = g.linear(mix_own(g, rows, "time_mix_key"), "key", width);
  const Value v = g.linear(mix_own(g, rows, "time_mix_value"), "value", width);
  const Value r = g.linear(mix_own(g, rows, "time_mix_receptance"), "receptance", width);
  const Value y = g.wkv(k, v, "time_decay", "time_first");
  return g.linear(g.mul(g.map(r, Function::kSigmoid), y), "output", hidden(c));
}

Value mlp(Graph& g, const Config& c, Value x, int) {
  const Scope scope(g, "feed_forward");
  const TokenShift rows = token_shift(g, x);
  const Value k = mix_own(g, rows, "time_mix_key");
  return channel_mix(g, c, k, mix_own(g, rows, "time_mix_receptance"));
}

void build(Graph& g, const Config& c) {
  build_layers(g, c,
               {.attention = time_mix,
                .mlp = mlp,
                .embedding = "rwkv.embeddings",
                .embedding_norm = "rwkv.blocks.0.pre_ln",
                .layers = "rwkv.blocks",
                .attention_norm = "ln1",
                .mlp_norm = "ln2",
                .norm = "rwkv.ln_out",
                .head = "head"});
}

constexpr Architecture kRows[] = {
    {"RwkvForCausalLM",
     build,
     {.layer_norm = true,
      .norm_eps = 1e-5,
      .activation = "relu2",
      .ffn_per_hidden = 4,
      .positions = 1024,
      .defaults = R"({"num_attention_heads": 1, "head_dim": 2})",  // Nothing has heads.
      // Halves of rescale_every keep float16 in its range, and change nothing else.
      .keys = {"attention_hidden_size", "rescale_every"},
      .names = {{{"layer_norm_epsilon", "rms_norm_eps"},
                 {"context_length", "max_position_embeddings"}}},
      .refine = read_rwkv4}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::rwkv4

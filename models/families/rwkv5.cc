// SPDX-License-Identifier: Apache-2.0
// RWKV 5 (Eagle, https://arxiv.org/abs/2404.05892), with the names of the published files.
#include "models/blocks.h"
#include "models/config_keys.h"
#include "models/families/families.h"
#include "models/rwkv_blocks.h"

namespace lockstep::families::rwkv5 {
namespace {

Value time_mix(Graph& g, const Config& c, Value x, int) {
  const Scope scope(g, "att");
  const TokenShift rows = token_shift(g, x);
  const auto mixed = [&](const char* name) { return mix_own(g, rows, name); };
  return recurrent_time_mix(g, c,
                            {.r = g.linear(mixed("time_mix_r"), "receptance", heads(c)),
                             .k = g.linear(mixed("time_mix_k"), "key", heads(c)),
                             .v = g.linear(mixed("time_mix_v"), "value", heads(c)),
                             .decay = g.broadcast("time_decay", heads(c), {c.heads, c.head_dim}),
                             .gate = mixed("time_mix_g")});
}

Value mlp(Graph& g, const Config& c, Value x, int) {
  const Scope scope(g, "ffn");
  const TokenShift rows = token_shift(g, x);
  const Value k = mix_own(g, rows, "time_mix_k");
  return channel_mix(g, c, k, mix_own(g, rows, "time_mix_r"));
}

void build(Graph& g, const Config& c) {
  build_layers(g, c,
               {.attention = time_mix,
                .mlp = mlp,
                .embedding = "emb",
                .embedding_norm = "blocks.0.ln0",
                .layers = "blocks",
                .attention_norm = "ln1",
                .mlp_norm = "ln2",
                .norm = "ln_out",
                .head = "head"});
}

absl::Status check(const Json& json) {
  const OnlyValue only[] = {{"model_version", "5_2"}};
  return check_only(json, only);
}

// The first files have RWKV 4's name.
bool is_rwkv5(const Json& json) { return json.value("model_type", Json()) == "rwkv5"; }

constexpr Family kFamily = {.layer_norm = true,
                            .norm_eps = 1e-5,
                            .activation = "relu2",
                            .ffn_per_hidden = 3.5,
                            .positions = 4096,
                            .defaults = R"({"num_attention_heads": 1, "head_dim": 64})",
                            .keys = {"attention_hidden_size", "rescale_every", "model_version"},
                            .names = {{{"layer_norm_epsilon", "rms_norm_eps"},
                                       {"head_size", "head_dim"},
                                       {"context_length", "max_position_embeddings"}}},
                            .sizes = {{{"intermediate_size", "blocks.0.ffn.key.weight", 0}}},
                            .check = check,
                            .refine = read_rwkv5};

constexpr Architecture kRows[] = {
    {"Rwkv5ForCausalLM", build, kFamily},
    {"RwkvForCausalLM", build, kFamily, is_rwkv5},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::rwkv5

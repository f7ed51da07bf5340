// SPDX-License-Identifier: Apache-2.0
// Bamba: in most layers Mamba-2 in place of attention, of which half of each head turns.
#include "base/status.h"
#include "models/blocks.h"
#include "models/config_keys.h"
#include "models/families/families.h"
#include "models/mamba_blocks.h"

namespace lockstep::families::bamba {
namespace {

Value mixer(Graph& g, const Config& c, Value x, int layer) {
  if (!c.recurrent.in_layer[static_cast<size_t>(layer)]) return old_llama_attention(g, c, x, layer);
  const Scope scope(g, "mamba");
  return mamba_mixer(g, c, x);
}

Value mlp(Graph& g, const Config& c, Value x, int) {
  const Scope scope(g, "feed_forward");
  const Value gate = g.map(g.linear(x, "gate_proj", ffn(c)), c.activation);
  return g.linear(g.mul(gate, g.linear(x, "up_proj", ffn(c))), "down_proj", hidden(c));
}

void build(Graph& g, const Config& c) {
  build_layers(g, c,
               {.attention = mixer,
                .mlp = mlp,
                .mlp_norm = "pre_ff_layernorm",
                .norm = "model.final_layernorm"});
}

absl::Status refine(const Json& json, Config& c) {
  RETURN_IF_ERROR(read_mamba(json, c));
  const OnlyValue only[] = {{"mlp_bias", false}};
  RETURN_IF_ERROR(check_only(json, only));
  if (json.value("layer_types", Json()).is_array()) return absl::OkStatus();
  const bool named = !json.value("attn_layer_indices", Json()).is_null();
  if (named) return read_full_layers(json, "attn_layer_indices", c);
  c.recurrent.in_layer.assign(static_cast<size_t>(c.layers), true);
  return absl::OkStatus();
}

constexpr Architecture kRows[] = {
    {"BambaForCausalLM",
     build,
     {.norm_eps = 1e-5,
      .partial_rotary = 0.5,
      .positions = 262144,
      .kv_heads = 8,
      .recurrent_type = "mamba",
      .mamba = true,
      .keys = {"attention_bias", "mlp_bias", "attn_layer_indices", "attn_rotary_emb", "layer_types",
               "z_loss_coefficient"},
      .names = {{{"layers_block_type", "layer_types"}}},
      .refine = refine}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::bamba

// SPDX-License-Identifier: Apache-2.0
// LFM2: in most layers a short convolution between two gates, out(C * conv(B * x)), in the others
// Llama's attention with a norm per head of q and k.
#include "base/status.h"
#include "models/blocks.h"
#include "models/config_recurrent.h"
#include "models/families/families.h"

namespace lockstep::families::lfm2 {
namespace {

// Each channel by itself from in_proj to out_proj: they are cut anywhere, as an MLP's columns are.
Value short_conv(Graph& g, const Config& c, Value x) {
  const Scope scope(g, "conv");
  const int64_t width = c.hidden_size;
  const AxisSize channels = {Axis::kFfn, width, 1};
  const auto part = [&](const char* name, int64_t index) {
    const FusedPart rows = {
        .name = name, .all_rows = 3 * width, .rows = {{index * width, (index + 1) * width}}};
    return g.linear_part(x, "in_proj", rows, channels, c.recurrent.bias);
  };
  const Value b = part("b", 0), gate = part("c", 1), inner = g.mul(b, part("x", 2));
  const Value mixed = g.conv(inner, "conv", {.taps = c.recurrent.taps, .bias = c.recurrent.bias});
  return g.linear(g.mul(gate, mixed), "out_proj", hidden(c), c.recurrent.bias);
}

Value mixer(Graph& g, const Config& c, Value x, int layer) {
  if (c.recurrent.in_layer[static_cast<size_t>(layer)]) return short_conv(g, c, x);
  return separate_attention(g, c, x, layer, "self_attn", "self_attn.out_proj");
}

Value mlp(Graph& g, const Config& c, Value x, int) {
  const Scope scope(g, "feed_forward");
  const Value gate = g.map(g.linear(x, "w1", ffn(c)), c.activation);
  return g.linear(g.mul(gate, g.linear(x, "w3", ffn(c))), "w2", hidden(c));
}

void build_lfm2(Graph& g, const Config& c) {
  build_layers(g, c,
               {.attention = mixer,
                .mlp = mlp,
                .attention_norm = "operator_norm",
                .mlp_norm = "ffn_norm",
                .norm = "model.embedding_norm"});
}

absl::Status check_lfm2(const Json& json) {
  for (const char* key : {"block_use_swiglu", "use_pos_enc"}) {
    ASSIGN_OR_RETURN(const bool found, get_bool(json, key, true));
    if (!found) return invalid_argument("{}: false is not supported; supported: true", key);
  }
  return absl::OkStatus();
}

constexpr Architecture kRows[] = {
    {"Lfm2ForCausalLM",
     build_lfm2,
     {.tie_word_embeddings = true,
      .qk_norm = {.over = QkNorm::Over::kHead, .q = "q_layernorm", .k = "k_layernorm"},
      .norm_eps = 1e-5,
      .rope_theta = 1000000,
      .positions = 128000,
      .kv_heads = 8,
      .recurrent_type = "conv",
      .keys = {"conv_bias", "conv_L_cache", "block_auto_adjust_ff_dim", "block_ffn_dim_multiplier",
               "block_multiple_of", "full_attn_idxs", "layer_types", "block_use_swiglu",
               "use_pos_enc", "block_mlp_init_scale", "block_out_init_scale",
               "block_use_xavier_init", "conv_use_xavier_init"},
      .names = {{{"norm_eps", "rms_norm_eps"},
                 {"block_norm_eps", "rms_norm_eps"},
                 {"tie_embedding", "tie_word_embeddings"},
                 {"block_ff_dim", "intermediate_size"},
                 {"block_dim", "hidden_size"},
                 {"conv_dim", "hidden_size"},
                 {"conv_dim_out", "hidden_size"},
                 {"num_heads", "num_attention_heads"}}},
      .check = check_lfm2,
      .refine = read_short_conv}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::lfm2

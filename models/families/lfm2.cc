// SPDX-License-Identifier: Apache-2.0
// LFM2: in most layers a short convolution between two gates, out(C * conv(B * x)); in the others
// Llama's attention with a norm per head of q and k.
#include <cmath>

#include "models/blocks/llama.h"
#include "models/families/families.h"
#include "operators/limits.h"

namespace lockstep::families::lfm2 {
namespace {

// Derives the width of the MLP from intermediate_size.
int64_t read_width(Keys& keys, int64_t given) {
  const bool adjusts = keys.flag("block_auto_adjust_ff_dim", true);
  const double factor = keys.number("block_ffn_dim_multiplier", -1e300, 1e300, 1);
  const int64_t unit = keys.count("block_multiple_of", kMaxWidth, 256);
  if (!adjusts) return given;
  const double width = std::floor(factor * std::floor(2 * static_cast<double>(given) / 3));
  if (!(width >= 1 && width <= kMaxWidth)) {
    keys.fail("block_ffn_dim_multiplier", "must give an MLP of 1 to {} columns, found {}",
              kMaxWidth, factor);
    return given;
  }
  return (static_cast<int64_t>(width) + unit - 1) / unit * unit;
}

// Channels are independent from in_proj to out_proj, so they can be split like an MLP's columns.
Value short_conv(Graph& g, int64_t width, const ConvSpec& spec, Value x) {
  const Scope scope(g, "conv");
  const auto part = [&](const char* name, int64_t index) {
    const FusedPart rows = rows_of_runs(name, 1, 3 * width, index * width, width);
    return g.linear_part(x, "in_proj", rows, ffn_axis(width), spec.bias);
  };
  const Value b = part("b", 0), gate = part("c", 1), inner = g.mul(b, part("x", 2));
  const Value mixed = g.conv(inner, "conv", spec);
  return g.linear(g.mul(gate, mixed), "out_proj", hidden_axis(width), spec.bias);
}

LanguageModel lfm2(Keys& keys) {
  keys.rename("norm_eps", "rms_norm_eps");
  keys.rename("block_norm_eps", "rms_norm_eps");
  keys.rename("tie_embedding", "tie_word_embeddings");
  keys.rename("block_ff_dim", "intermediate_size");
  keys.rename("block_dim", "hidden_size");
  keys.rename("conv_dim", "hidden_size");
  keys.rename("conv_dim_out", "hidden_size");
  keys.rename("num_heads", "num_attention_heads");
  keys.only("block_use_swiglu use_pos_enc", true);
  keys.ignore(
      "block_mlp_init_scale block_out_init_scale block_use_xavier_init "
      "conv_use_xavier_init");
  Llama m(keys, {.sizes = {.kv_heads = 8, .positions = 128000},
                 .norm = read_rms_norm(keys, 1e-5),
                 .tied = true,
                 .rope = {.theta = 1000000}});
  m.attention.norm_heads(keys,
                         {.over = QkNorm::Over::kHead, .q = "q_layernorm", .k = "k_layernorm"});
  m.mlp.width = m.sizes.ffn = read_width(keys, m.sizes.ffn);
  const ConvSpec conv = {.taps = keys.integer("conv_L_cache", 2, kMaxTaps, 3),
                         .bias = keys.flag("conv_bias", false)};
  std::vector<bool> recurs(static_cast<size_t>(m.sizes.layers), keys.has("full_attn_idxs"));
  for (const size_t layer : keys.layers("full_attn_idxs", m.sizes.layers)) recurs[layer] = false;
  read_recurrent_types(keys, recurs, "conv");
  const Block attention = separate_attention(m.attention, "self_attn", "self_attn.out_proj");
  const int64_t width = m.sizes.hidden;
  LanguageModel d = m.model(
      [=](Graph& g, Value x, int layer) {
        return recurs[layer] ? short_conv(g, width, conv, x) : attention(g, x, layer);
      },
      gated_mlp(m.mlp, {"w1", "w3", "w2"}, "feed_forward"));
  d.attention_norm = "operator_norm";
  d.mlp_norm = "ffn_norm";
  d.norm = "model.embedding_norm";
  return d;
}

constexpr Architecture kRows[] = {{"Lfm2ForCausalLM", lfm2}};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::lfm2

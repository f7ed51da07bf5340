// SPDX-License-Identifier: Apache-2.0
#include "models/recurrent_blocks.h"

#include <cmath>

namespace lockstep {

AxisSize key_axis(const RecurrentConfig& r) {
  return {Axis::kKvHeads, r.key_heads, r.k_dim, r.heads};
}
AxisSize value_axis(const RecurrentConfig& r) { return {Axis::kHeads, r.heads, r.v_dim}; }
AxisSize head_axis(const RecurrentConfig& r) { return {Axis::kHeads, r.heads, 1}; }

Value gated_delta_net(Graph& g, const Config& c, const DeltaInputs& in) {
  const RecurrentConfig& r = c.recurrent;
  const int64_t keys = r.key_heads * r.k_dim, channels = 2 * keys + r.heads * r.v_dim;
  const auto mixed = [&](Value value, int64_t begin) {
    const ConvSpec spec = {.taps = r.taps, .channels = channels, .begin = begin};
    return g.map(g.conv(value, "conv1d", spec), Function::kSilu);
  };
  const Value decay = g.decay(g.map(g.biased(in.a, "dt_bias"), Function::kSoftplus), "A_log");
  const Value y = g.delta_rule(mixed(in.q, 0), mixed(in.k, keys), mixed(in.v, 2 * keys), decay,
                               g.map(in.b, Function::kSigmoid),
                               {.heads = r.heads,
                                .key_heads = r.key_heads,
                                .k_dim = r.k_dim,
                                .v_dim = r.v_dim,
                                .scale = 1 / std::sqrt(static_cast<float>(r.k_dim)),
                                .eps = 1e-6f});
  const Value normed = g.head_norm(y, "norm", {.eps = c.norm_eps, .head_dim = r.v_dim});
  return g.linear(g.mul(g.map(in.z, Function::kSilu), normed), "out_proj", hidden(c));
}

Value gated_attention(Graph& g, const Config& c, Value x, int layer) {
  const Scope scope(g, "self_attn");
  const int64_t dim = c.head_dim;
  const auto part = [&](const char* name, int64_t begin) {
    const FusedPart rows = rows_of_runs(name, c.heads, 2 * dim, begin, dim);
    return g.linear_part(x, "q_proj", rows, heads(c), c.qkv_bias);
  };
  const auto turned = [&](Value value, const char* norm) {
    const HeadNorm spec = {.eps = c.norm_eps, .head_dim = dim, .plus = c.norm_plus};
    return g.rope(g.head_norm(value, norm, spec), c.rope);
  };
  const Value q = part("q", 0), gate = part("gate", dim);
  const Value k = g.linear(x, "k_proj", kv_heads(c), c.qkv_bias);
  const Value v = g.linear(x, "v_proj", kv_heads(c), c.qkv_bias);
  const Value y =
      g.attention(turned(q, "q_norm"), turned(k, "k_norm"), v, attention_spec(c, layer));
  return g.linear(g.mul(g.map(gate, Function::kSigmoid), y), "o_proj", hidden(c), c.output_bias);
}

}  // namespace lockstep

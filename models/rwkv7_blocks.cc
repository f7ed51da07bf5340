// SPDX-License-Identifier: Apache-2.0
#include "models/rwkv7_blocks.h"

#include <cmath>

#include "models/rwkv_blocks.h"

namespace lockstep {
namespace {

// out(f(in(x))) through few columns.
Value low_rank(Graph& g, const Config& c, const Rwkv7Names& names, Value x, const std::string& name,
               int64_t between, Function f, bool bias) {
  const AxisSize narrow = {Axis::kNone, between, 1};
  const std::string lora = name + "_lora.lora.";
  Value inner =
      names.lora ? g.linear(x, lora + "0", narrow) : turned_linear(g, x, name + "1", narrow);
  if (f != Function::kNone) inner = g.map(inner, f);
  if (names.lora) return g.linear(inner, lora + "2", heads(c), bias);
  const Value out = turned_linear(g, inner, name + "2", heads(c));
  return bias ? g.biased(out, name + "0", {1, 1, c.hidden_size}) : out;
}

// Keys of length 1, which is what a state forgets.
Value unit_keys(Graph& g, const Config& c, Value k) {
  const auto dim = static_cast<float>(c.head_dim);
  const Value normed = g.head_norm(k, "", {.eps = 1e-24f / dim, .head_dim = c.head_dim});
  return g.map(normed, Function::kScale, 1 / std::sqrt(dim));
}

}  // namespace

Value rwkv7_vector(Graph& g, const Rwkv7Names& names, const std::string& name, AxisSize axis) {
  using Shape = std::vector<int64_t>;
  return g.broadcast(name, axis, names.lora ? Shape{axis.columns()} : Shape{1, 1, axis.columns()});
}

Value rwkv7_time_mix(Graph& g, const Config& c, const Rwkv7Names& names, Value x, int layer,
                     Value& first_v) {
  const Scope scope(g, names.attention);
  const TokenShift rows = token_shift(g, x);
  const auto product = [&](Value mixed, const char* name, int64_t between, Function f) {
    return low_rank(g, c, names, mixed, name, between, f, /*bias=*/true);
  };
  const Value r = g.linear(mix_before(g, rows, "x_r"), names.r, heads(c));
  const Value k = g.linear(mix_before(g, rows, "x_k"), names.k, heads(c));
  const Value x_v = mix_before(g, rows, "x_v");
  Value v = g.linear(x_v, names.v, heads(c));
  if (layer == 0) {
    first_v = v;
  } else {
    const Value share = product(x_v, "v", c.rwkv.value_rank, Function::kNone);
    v = g.lerp(v, first_v, g.map(share, Function::kSigmoid));
  }
  const Value log = product(mix_before(g, rows, "x_w"), "w", c.rwkv.decay_rank, Function::kTanh);
  // Decay is e^(-e^-0.5 * sigmoid(log)): a row leaves at least 0.545 of what was there.
  const Value decay =
      g.map(g.map(g.map(log, Function::kSigmoid), Function::kScale, -0.60653066f), Function::kExp);
  const Value rate =
      g.map(product(mix_before(g, rows, "x_a"), "a", c.rwkv.rate_rank, Function::kNone),
            Function::kSigmoid);
  const Value unit = unit_keys(g, c, g.mul(k, rwkv7_vector(g, names, "k_k", heads(c))));
  const Value key = g.lerp(k, g.mul(k, rate), rwkv7_vector(g, names, "k_a", heads(c)));
  const LowRank forgets = {.a = g.map(unit, Function::kScale, -1), .b = g.mul(unit, rate)};
  const Value y = g.recurrence(
      r, key, v, decay, forgets,
      {.heads = c.heads, .key_heads = c.heads, .k_dim = c.head_dim, .v_dim = c.head_dim});
  const Value own = g.head_dot(r, key, g.broadcast("r_k", heads(c), {c.heads, c.head_dim}), v);
  const Value gate = low_rank(g, c, names, mix_before(g, rows, "x_g"), "g", c.rwkv.gate_rank,
                              Function::kSigmoid, /*bias=*/false);
  const Value sum = g.add(norm_of_heads(g, c, y, names.norm), own);
  return g.linear(g.mul(sum, gate), names.out, hidden(c));
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "models/rwkv_blocks.h"

namespace lockstep {
namespace {

Value weights(Graph& g, const TokenShift& rows, const std::string& name) {
  const AxisSize axis = g.info(rows.x).axis;
  return g.broadcast(name, axis, {1, 1, axis.columns()});
}

}  // namespace

TokenShift token_shift(Graph& g, Value x) { return {.x = x, .before = g.shift(x)}; }

Value mix_before(Graph& g, const TokenShift& rows, const std::string& name) {
  return g.lerp(rows.x, rows.before, weights(g, rows, name));
}

Value mix_own(Graph& g, const TokenShift& rows, const std::string& name) {
  return g.lerp(rows.before, rows.x, weights(g, rows, name));
}

Value turned_linear(Graph& g, Value x, const std::string& name, AxisSize out) {
  return g.linear_part(x, name,
                       {.all_rows = out.columns(),
                        .rows = {{0, out.columns()}},
                        .transposed = true,
                        .bare_name = true},
                       out);
}

Value decay_of(Graph& g, Value log) {
  return g.map(g.map(g.map(log, Function::kExp), Function::kScale, -1), Function::kExp);
}

Value norm_of_heads(Graph& g, const Config& c, Value x, const std::string& name) {
  return g.head_norm(x, name,
                     {.eps = c.rwkv.norm_eps,
                      .head_dim = c.head_dim,
                      .centred = true,
                      .bias = true,
                      .by_column = true});
}

// The row's own k and v count by weights of their own, and decay from the next row on.
Value recurrent_time_mix(Graph& g, const Config& c, const TimeMix& mix) {
  const Value first = g.broadcast("time_faaaa", heads(c), {c.heads, c.head_dim});
  const Value past = g.recurrence(mix.r, mix.k, mix.v, decay_of(g, mix.decay), {},
                                  {.heads = c.heads,
                                   .key_heads = c.heads,
                                   .k_dim = c.head_dim,
                                   .v_dim = c.head_dim,
                                   .out_before = true});
  const Value y = g.add(past, g.head_dot(mix.r, mix.k, first, mix.v));
  const Value gate = g.map(g.linear(mix.gate, "gate", heads(c)), Function::kSilu);
  return g.linear(g.mul(gate, norm_of_heads(g, c, y, "ln_x")), "output", hidden(c));
}

Value channel_mix(Graph& g, const Config& c, Value k, Value r) {
  const Value gate = g.map(g.linear(r, "receptance", hidden(c)), Function::kSigmoid);
  const Value inner = g.map(g.linear(k, "key", ffn(c)), Function::kReluSquared);
  return g.mul(gate, g.linear(inner, "value", hidden(c)));
}

}  // namespace lockstep

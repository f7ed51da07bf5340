// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/rwkv.h"

#include <algorithm>
#include <utility>

namespace lockstep {

Llama read_rwkv(Keys& keys, const SizeDefaults& missing) {
  constexpr int64_t kPositions = 32768;  // The max context, unless the config has a longer one.
  keys.defaults(R"({"num_attention_heads": 1})");
  Llama m(keys, {.sizes = missing, .norm = read_layer_norm(keys), .activation = "relu2"});
  m.sizes.positions = std::max(m.sizes.positions, kPositions);
  return m;
}

RwkvHeads read_rwkv_heads(Keys& keys, Llama& m) {
  if (m.sizes.hidden % m.sizes.head_dim != 0) {
    keys.fail("head_dim", "must be a divisor of hidden_size ({}), found {}", m.sizes.hidden,
              m.sizes.head_dim);
  }
  m.sizes.heads = m.sizes.kv_heads = m.sizes.hidden / m.sizes.head_dim;
  return {.hidden = m.sizes.hidden, .count = m.sizes.heads, .dim = m.sizes.head_dim};
}

LanguageModel rwkv_model(const Llama& m, Block time_mix, Block channel_mix) {
  LanguageModel d = m.model(std::move(time_mix), std::move(channel_mix));
  d.embedding = "emb";
  d.embedding_norm = "blocks.0.ln0";
  d.layers = "blocks";
  d.attention_norm = "ln1";
  d.mlp_norm = "ln2";
  d.norm = "ln_out";
  d.head = "head";
  return d;
}

namespace {

Value weights(Graph& g, const TokenShift& rows, const std::string& name) {
  const AxisSize axis = g.info(rows.x).axis;
  return g.broadcast(name, axis, {1, 1, axis.columns()});
}

// e^-e^log: the decay of a state from the log of its rate.
Value decay_of(Graph& g, Value log) {
  return g.map(g.map(g.map(log, Function::kExp), Function::kScale, -1), Function::kExp);
}

}  // namespace

TokenShift token_shift(Graph& g, Value x) { return {.x = x, .before = g.shift(x)}; }

Value mix_before(Graph& g, const TokenShift& rows, const std::string& name) {
  return g.lerp(rows.x, rows.before, weights(g, rows, name));
}

Value mix_own(Graph& g, const TokenShift& rows, const std::string& name) {
  return g.lerp(rows.before, rows.x, weights(g, rows, name));
}

Value linear_from_transposed(Graph& g, Value x, const std::string& name, AxisSize out) {
  return g.linear_part(x, name,
                       {.all_rows = out.columns(),
                        .rows = {{0, out.columns()}},
                        .transposed = true,
                        .bare_name = true},
                       out);
}

Value norm_of_heads(Graph& g, const RwkvHeads& h, Value x, const std::string& name) {
  return g.head_norm(
      x, name,
      {.eps = h.norm_eps, .head_dim = h.dim, .centred = true, .bias = true, .by_column = true});
}

// In the result of a row, time_faaaa is the factor of the row's own k * v^T, which decays only in
// later rows.
Value recurrent_time_mix(Graph& g, const RwkvHeads& h, const TimeMix& mix) {
  const Value first = g.broadcast("time_faaaa", h.axis(), {h.count, h.dim});
  const Value past = g.recurrence(
      mix.r, mix.k, mix.v, decay_of(g, mix.decay), {},
      {.heads = h.count, .key_heads = h.count, .k_dim = h.dim, .v_dim = h.dim, .out_before = true});
  const Value y = g.add(past, g.head_dot(mix.r, mix.k, first, mix.v));
  const Value gate = g.map(g.linear(mix.gate, "gate", h.axis()), Function::kSilu);
  return g.linear(g.mul(gate, norm_of_heads(g, h, y, "ln_x")), "output", hidden_axis(h.hidden));
}

Value channel_mix(Graph& g, const Mlp& m, Value k, Value r) {
  const AxisSize hidden = hidden_axis(m.hidden);
  const Value gate = g.map(g.linear(r, "receptance", hidden), Function::kSigmoid);
  const Value inner = g.map(g.linear(k, "key", ffn_axis(m.width)), Function::kReluSquared);
  return g.mul(gate, g.linear(inner, "value", hidden));
}

}  // namespace lockstep

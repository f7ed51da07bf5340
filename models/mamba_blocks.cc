// SPDX-License-Identifier: Apache-2.0
#include "models/mamba_blocks.h"

#include "models/recurrent_blocks.h"

namespace lockstep {
namespace {

// Rows of in_proj, behind each other: the gate, what the convolution mixes (values, B, C), steps.
struct Parts {
  int64_t inner, groups, heads;

  explicit Parts(const RecurrentConfig& r)
      : inner(r.heads * r.v_dim), groups(r.key_heads * r.k_dim), heads(r.heads) {}
  int64_t channels() const { return inner + 2 * groups; }
  int64_t all() const { return inner + channels() + heads; }
};

}  // namespace

// Values are scaled by the row's step and decay by e^(-step * e^A_log); B is the key, C the query.
// The norm is over the heads of a group together.
Value mamba_mixer(Graph& g, const Config& c, Value x) {
  const RecurrentConfig& r = c.recurrent;
  const Parts parts(r);
  const auto part = [&](const char* name, int64_t begin, AxisSize axis) {
    return g.linear_part(
        x, "in_proj",
        {.name = name, .all_rows = parts.all(), .rows = {{begin, begin + axis.columns()}}}, axis);
  };
  const auto mixed = [&](const char* name, int64_t begin, AxisSize axis) {
    const Value value = part(name, parts.inner + begin, axis);
    const ConvSpec spec = {
        .taps = r.taps, .bias = r.bias, .channels = parts.channels(), .begin = begin};
    return g.map(g.conv(value, "conv1d", spec), Function::kSilu);
  };
  const Value gate = part("gate", 0, value_axis(r));
  const Value values = mixed("x", 0, value_axis(r));
  const Value key = mixed("b", parts.inner, key_axis(r));
  const Value query = mixed("c", parts.inner + parts.groups, key_axis(r));
  const Value steps = part("dt", parts.inner + parts.channels(), head_axis(r));
  const Value step = g.map(g.biased(steps, "dt_bias"), Function::kSoftplus);
  const Value past = g.recurrence(
      query, key, g.mul(values, g.expand_heads(step, r.v_dim)), g.decay(step, "A_log"), {},
      {.heads = r.heads, .key_heads = r.key_heads, .k_dim = r.k_dim, .v_dim = r.v_dim});
  const Value skip = g.expand_heads(g.broadcast("D", head_axis(r), {r.heads}), r.v_dim);
  const Value y = g.mul(g.add(past, g.mul(values, skip)), g.map(gate, Function::kSilu));
  const Value normed = g.head_norm(
      y, "norm", {.eps = c.norm_eps, .head_dim = parts.inner / r.key_heads, .by_column = true});
  return g.linear(normed, "out_proj", hidden(c));
}

}  // namespace lockstep

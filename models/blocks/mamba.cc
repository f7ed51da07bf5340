// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/mamba.h"

#include "operators/limits.h"

namespace lockstep {
namespace {

// Steps must not be bounded: the key is null, or [0, "Infinity"]. JSON has no number for infinity,
// so it is a string.
void check_step_limit(Keys& keys) {
  const Json& limit = keys.json("time_step_limit");
  if (limit.is_null() || limit == Json::array({0, "Infinity"})) return;
  keys.fail("time_step_limit", "{} is not supported; supported: [0, Infinity]", describe(limit));
}

}  // namespace

Mamba read_mamba(Keys& keys, const Sizes& sizes, const Norm& norm) {
  keys.only("mamba_proj_bias use_bias", false);
  keys.ignore(
      "time_step_min time_step_max time_step_floor time_step_rank mamba_chunk_size chunk_size "
      "use_mamba_kernels mamba_ssm_cache_dtype num_logits_to_keep");
  check_step_limit(keys);
  Mamba m = {.hidden = sizes.hidden,
             .norm_eps = norm.eps,
             .taps = keys.integer("mamba_d_conv", 2, kMaxTaps, 4),
             .bias = keys.flag("mamba_conv_bias", true),
             .heads = keys.count("mamba_n_heads", 4096, 128),
             .groups = keys.count("mamba_n_groups", 4096, 1),
             .state_dim = keys.count("mamba_d_state", kMaxStateDim, 256)};
  if (m.heads % m.groups != 0) {
    keys.fail("mamba_n_groups", "must be a divisor of mamba_n_heads ({}), found {}", m.heads,
              m.groups);
  }
  const int64_t implied = keys.count("mamba_expand", 64, 2) * sizes.hidden / m.heads;
  const Json& given = keys.json("mamba_d_head");
  const bool is_implied = given.is_null() || given == "auto";
  m.head_dim = is_implied ? implied : keys.count("mamba_d_head", kMaxStateDim);
  if (m.head_dim < 1 || m.head_dim > kMaxStateDim || m.heads * m.head_dim > kMaxWidth) {
    keys.fail("mamba_d_head", "must be heads of 1 to {} columns, found {}", kMaxStateDim,
              m.head_dim);
  }
  return m;
}

// A row's step multiplies its values, and the state decays by e^(-step * e^A_log). B is the key, C
// the query. The norm covers the heads of a group together.
Value mamba_mixer(Graph& g, const Mamba& m, Value x) {
  // Rows of in_proj, in order: the gate, the convolution's channels (values, B, C), steps.
  const int64_t inner = m.heads * m.head_dim, keys = m.groups * m.state_dim;
  const int64_t channels = inner + 2 * keys;
  const AxisSize key_axis = {Axis::kKvHeads, m.groups, m.state_dim, m.heads};
  const AxisSize value_axis = {Axis::kHeads, m.heads, m.head_dim};
  const AxisSize head_axis = {Axis::kHeads, m.heads, 1};
  const auto part = [&](const char* name, int64_t begin, AxisSize axis) {
    const int64_t rows = inner + channels + m.heads;
    return g.linear_part(x, "in_proj", rows_of_runs(name, 1, rows, begin, axis.columns()), axis);
  };
  const auto mixed = [&](const char* name, int64_t begin, AxisSize axis) {
    const Value value = part(name, inner + begin, axis);
    const ConvSpec spec = {.taps = m.taps, .bias = m.bias, .channels = channels, .begin = begin};
    return g.map(g.conv(value, "conv1d", spec), Function::kSilu);
  };
  const Value gate = part("gate", 0, value_axis);
  const Value values = mixed("x", 0, value_axis);
  const Value key = mixed("b", inner, key_axis);
  const Value query = mixed("c", inner + keys, key_axis);
  const Value steps = part("dt", inner + channels, head_axis);
  const Value step = g.map(g.biased(steps, "dt_bias"), Function::kSoftplus);
  const Value decay = g.decay(step, "A_log");
  const Value past = g.recurrence(
      query, key, g.mul(values, g.expand_heads(step, m.head_dim)), decay, {},
      {.heads = m.heads, .key_heads = m.groups, .k_dim = m.state_dim, .v_dim = m.head_dim});
  const Value skip = g.expand_heads(g.broadcast("D", head_axis, {m.heads}), m.head_dim);
  const Value open = g.map(gate, Function::kSilu);
  const Value y = g.mul(g.add(past, g.mul(values, skip)), open);
  const Value normed =
      g.head_norm(y, "norm", {.eps = m.norm_eps, .head_dim = inner / m.groups, .by_column = true});
  return g.linear(normed, "out_proj", hidden_axis(m.hidden));
}

Block mamba_or_attention(const Mamba& m, const Attention& a, const std::vector<bool>& recurs) {
  return [=, attend = llama_attention(a)](Graph& g, Value x, int layer) {
    if (!recurs[layer]) return attend(g, x, layer);
    const Scope scope(g, "mamba");
    return mamba_mixer(g, m, x);
  };
}

}  // namespace lockstep

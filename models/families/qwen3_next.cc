// SPDX-License-Identifier: Apache-2.0
// Qwen3-Next and Qwen3.5: the gated delta rule in three of four layers, attention with a gate on
// its output in the others. Norms multiply by 1 + w, where files store w; only the norm of the
// delta rule multiplies by the stored weight.
#include <cmath>

#include "models/blocks/llama.h"
#include "models/families/families.h"
#include "operators/limits.h"

namespace lockstep::families::qwen3_next {
namespace {

// The gated delta rule. Each key head serves neighbouring value heads.
struct DeltaNet {
  int64_t hidden, taps, key_heads, heads, k_dim, v_dim;
  float norm_eps;

  int64_t keys() const { return key_heads * k_dim; }
  // key_axis(): q and k. value_axis(): v, the gate, the output. head_axis(): one column per v head.
  AxisSize key_axis() const { return {Axis::kKvHeads, key_heads, k_dim, heads}; }
  AxisSize value_axis() const { return {Axis::kHeads, heads, v_dim}; }
  AxisSize head_axis() const { return {Axis::kHeads, heads, 1}; }
};

DeltaNet read_delta_net(Keys& keys, const Llama& m) {
  DeltaNet net = {.hidden = m.sizes.hidden,
                  .taps = keys.integer("linear_conv_kernel_dim", 2, kMaxTaps, 4),
                  .key_heads = keys.count("linear_num_key_heads", 1024, 16),
                  .heads = keys.count("linear_num_value_heads", 1024, 32),
                  .k_dim = keys.count("linear_key_head_dim", kMaxStateDim, 128),
                  .v_dim = keys.count("linear_value_head_dim", kMaxStateDim, 128),
                  .norm_eps = m.norm.eps};
  if (net.heads % net.key_heads != 0) {
    keys.fail("linear_num_value_heads", "must be a multiple of linear_num_key_heads ({}), found {}",
              net.key_heads, net.heads);
  }
  return net;
}

// Linears of a layer's x, in the axes above.
struct DeltaInputs {
  Value q, k, v;  // Before the convolution.
  Value z;        // The gate of the output.
  Value a, b;     // The inputs of decay and rate.
};
using Project = DeltaInputs (*)(Graph& graph, const DeltaNet& net, Value x);

// in_proj_qkvz has, for each key head, its q, its k, and the v and z of the value heads that it
// serves; in_proj_ba has the b and a of these value heads.
DeltaInputs project_by_head(Graph& g, const DeltaNet& n, Value x) {
  const int64_t group = n.heads / n.key_heads, values = group * n.v_dim, k = n.k_dim;
  const auto part = [&](const char* name, int64_t begin, int64_t size, AxisSize axis) {
    const FusedPart rows = rows_of_runs(name, n.key_heads, 2 * k + 2 * values, begin, size);
    return g.linear_part(x, "in_proj_qkvz", rows, axis);
  };
  const auto by_head = [&](const char* name, int64_t begin) {
    const FusedPart rows = rows_of_runs(name, n.key_heads, 2 * group, begin, group);
    return g.linear_part(x, "in_proj_ba", rows, n.head_axis());
  };
  return {.q = part("q", 0, k, n.key_axis()),
          .k = part("k", k, k, n.key_axis()),
          .v = part("v", 2 * k, values, n.value_axis()),
          .z = part("z", 2 * k + values, values, n.value_axis()),
          .a = by_head("a", group),
          .b = by_head("b", 0)};
}

// All q, all k and all v are in one matrix; z, a and b have their own matrices.
DeltaInputs project_apart(Graph& g, const DeltaNet& n, Value x) {
  const int64_t all = 2 * n.keys() + n.heads * n.v_dim;
  const auto part = [&](const char* name, int64_t begin, AxisSize axis) {
    return g.linear_part(x, "in_proj_qkv", rows_of_runs(name, 1, all, begin, axis.columns()), axis);
  };
  return {.q = part("q", 0, n.key_axis()),
          .k = part("k", n.keys(), n.key_axis()),
          .v = part("v", 2 * n.keys(), n.value_axis()),
          .z = g.linear(x, "in_proj_z", n.value_axis()),
          .a = g.linear(x, "in_proj_a", n.head_axis()),
          .b = g.linear(x, "in_proj_b", n.head_axis())};
}

// norm(delta_rule(silu(conv(q, k, v)), decay, rate)) * silu(z), projected.
Value delta_net(Graph& g, const DeltaNet& n, const DeltaInputs& in) {
  const auto mixed = [&](Value value, int64_t begin) {
    const ConvSpec spec = {
        .taps = n.taps, .channels = 2 * n.keys() + n.heads * n.v_dim, .begin = begin};
    return g.map(g.conv(value, "conv1d", spec), Function::kSilu);
  };
  const Value decay = g.decay(g.map(g.biased(in.a, "dt_bias"), Function::kSoftplus), "A_log");
  const Value rate = g.map(in.b, Function::kSigmoid);
  const Value v = mixed(in.v, 2 * n.keys()), k = mixed(in.k, n.keys()), q = mixed(in.q, 0);
  const Value y = g.delta_rule(q, k, v, decay, rate,
                               {.heads = n.heads,
                                .key_heads = n.key_heads,
                                .k_dim = n.k_dim,
                                .v_dim = n.v_dim,
                                .scale = 1 / std::sqrt(static_cast<float>(n.k_dim)),
                                .eps = 1e-6f});
  const Value normed = g.head_norm(y, "norm", {.eps = n.norm_eps, .head_dim = n.v_dim});
  return g.linear(g.mul(g.map(in.z, Function::kSilu), normed), "out_proj", hidden_axis(n.hidden));
}

// Attention whose output is multiplied by sigmoid(gate): per head, q_proj has its q, then its gate.
Value gated_attention(Graph& g, const Attention& a, Value x, int layer) {
  const Scope scope(g, "self_attn");
  const auto part = [&](const char* name, int64_t begin) {
    const FusedPart rows = rows_of_runs(name, a.heads, 2 * a.head_dim, begin, a.head_dim);
    return g.linear_part(x, "q_proj", rows, a.q_axis(), a.qkv_bias);
  };
  const auto rotated = [&](Value value, const char* norm) {
    const HeadNorm spec = {.eps = a.norm.eps, .head_dim = a.head_dim, .plus = a.norm.plus};
    return g.rope(g.head_norm(value, norm, spec), a.ropes.all);
  };
  const Value q = part("q", 0), gate = part("gate", a.head_dim);
  const Value k = g.linear(x, "k_proj", a.kv_axis(), a.qkv_bias);
  const Value v = g.linear(x, "v_proj", a.kv_axis(), a.qkv_bias);
  const Value key = rotated(k, "k_norm");
  const Value y = g.attention(rotated(q, "q_norm"), key, v, attention_attrs(a, layer));
  return g.linear(g.mul(g.map(gate, Function::kSigmoid), y), "o_proj", hidden_axis(a.hidden),
                  a.out_bias);
}

Llama read_qwen(Keys& keys, double ffn_per_hidden = 0) {
  Norm norm = read_rms_norm(keys);
  norm.plus = 1;
  Llama m(keys, {.sizes = {.ffn_per_hidden = ffn_per_hidden, .head_dim = 256},
                 .norm = norm,
                 .rope = {.part = 0.25}});
  m.attention.norm_heads(keys);
  m.attention.set_bias(keys.flag("attention_bias", false));
  keys.only("attn_output_gate", true);
  keys.only_one_of("output_gate_type", {"swish", "silu"});
  return m;
}

// The layers that layer_types names have attention; without layer_types, every
// full_attention_interval-th layer.
Block mixer(Keys& keys, const Llama& m, Project project) {
  const DeltaNet net = read_delta_net(keys, m);
  const int64_t every = keys.count("full_attention_interval", 1024, 4);
  std::vector<bool> recurs(static_cast<size_t>(m.sizes.layers));
  for (int64_t i = 0; i < m.sizes.layers; ++i) recurs[i] = (i + 1) % every != 0;
  read_recurrent_types(keys, recurs, "linear_attention");
  return [=, attention = m.attention](Graph& g, Value x, int layer) {
    if (!recurs[layer]) return gated_attention(g, attention, x, layer);
    const Scope scope(g, "linear_attn");
    return delta_net(g, net, project(g, net, x));
  };
}

LanguageModel next(Keys& keys) {
  const Llama m = read_qwen(keys);
  const Mixture experts =
      read_mixture(keys, m.sizes, m.mlp, "num_experts",
                   {.count = 512, .chosen = 10, .size = 512, .shared_size = 512, .by_layer = true});
  LanguageModel d = m.model(mixer(keys, m, project_by_head), qwen_experts(experts, m.mlp));
  d.mixture = experts;
  return d;
}

LanguageModel qwen3_5(Keys& keys) {
  const Llama m = read_qwen(keys);
  return m.model(mixer(keys, m, project_apart));
}

// Every layer has experts, so the config has no width of a dense MLP.
LanguageModel qwen3_5_moe(Keys& keys) {
  const Llama m = read_qwen(keys, 1);
  const Mixture experts = read_mixture(
      keys, m.sizes, m.mlp, "num_experts",
      {.count = 256, .chosen = 8, .size = 512, .shared_size = 512, .always_renormalised = true});
  LanguageModel d = m.model(mixer(keys, m, project_apart), qwen_experts(experts, m.mlp));
  d.mixture = experts;
  return d;
}

constexpr Architecture kRows[] = {
    {"Qwen3NextForCausalLM", next},
    {"Qwen3_5ForCausalLM", qwen3_5},
    {"Qwen3_5MoeForCausalLM", qwen3_5_moe},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::qwen3_next

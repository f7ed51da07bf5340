// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/experts.h"

#include "operators/limits.h"

namespace lockstep {
namespace {

// Marks the layers with experts: from first_k_dense_replace on, or those in mlp_layer_types.
void read_sparse_layers(Keys& keys, Mixture& mixture) {
  std::vector<bool>& sparse = mixture.in_layer;
  const int64_t dense = keys.integer("first_k_dense_replace", INT64_MIN, INT64_MAX, 1);
  for (size_t i = 0; i < sparse.size(); ++i) sparse[i] = static_cast<int64_t>(i) >= dense;
  const Json types = keys.list("mlp_layer_types", sparse.size());
  for (size_t i = 0; i < types.size(); ++i) {
    sparse[i] = types[i] == "sparse";
    if (sparse[i] || types[i] == "dense") continue;
    keys.fail(fmt::format("mlp_layer_types[{}]", i), "must be dense or sparse, found {}",
              describe(types[i]));
  }
}

// Reads the groups of experts, the shared experts, and which layers have experts.
void read_grouped(Keys& keys, Mixture& mixture) {
  mixture.groups = keys.count("n_group", mixture.count, 1);
  mixture.chosen_groups = keys.count("topk_group", mixture.groups, 1);
  const int64_t each = mixture.count / mixture.groups;
  // A group's score is the sum of its two best experts' scores.
  if (mixture.count % mixture.groups != 0 || (mixture.groups > 1 && each < 2)) {
    keys.fail("n_group", "must split the {} experts into groups of two or more, found {}",
              mixture.count, mixture.groups);
  }
  if (mixture.chosen > each * mixture.chosen_groups) {
    keys.fail("topk_group", "must choose groups with at least {} experts in total, found {}",
              mixture.chosen, each * mixture.chosen_groups);
  }
  mixture.scale = keys.factor("routed_scaling_factor");
  mixture.shared_size = keys.count("n_shared_experts", kMaxWidth / mixture.size, 1) * mixture.size;
  read_sparse_layers(keys, mixture);
}

// Every decoder_sparse_step-th layer has experts, except those in mlp_only_layers.
void read_expert_layers(Keys& keys, Mixture& mixture) {
  const auto layers = std::ssize(mixture.in_layer);
  const int64_t step = keys.count("decoder_sparse_step", kMaxWidth, 1);
  for (int64_t i = 0; i < layers; ++i) mixture.in_layer[i] = (i + 1) % step == 0;
  for (const size_t layer : keys.layers("mlp_only_layers", layers)) mixture.in_layer[layer] = false;
}

}  // namespace

void rename_expert_counts(Keys& keys, std::string_view count_key) {
  for (const char* name : {"num_experts", "num_local_experts", "n_routed_experts"}) {
    if (name != count_key) keys.rename(name, count_key);
  }
}

Mixture read_mixture(Keys& keys, const Sizes& sizes, const Mlp& mlp, const char* count_key,
                     const MixtureDefaults& missing) {
  Mixture mixture{.hidden = sizes.hidden, .activation = mlp.activation, .size = sizes.ffn};
  rename_expert_counts(keys, count_key);
  keys.only("moe_layer_freq", 1);
  mixture.count = keys.count(count_key, kMaxExperts, missing.count);
  mixture.chosen = keys.count("num_experts_per_tok", mixture.count, missing.chosen);
  if (missing.size != 0) {
    mixture.size = keys.count("moe_intermediate_size", kMaxWidth, missing.size);
  }
  if (missing.shared_size != 0) {
    mixture.shared_size =
        keys.count("shared_expert_intermediate_size", kMaxWidth, missing.shared_size);
  }
  mixture.renormalised = missing.always_renormalised;
  if (missing.always_renormalised) {
    keys.only("norm_topk_prob", true);
  } else {
    mixture.renormalised = keys.flag("norm_topk_prob", missing.renormalised);
  }
  mixture.in_layer.assign(static_cast<size_t>(sizes.layers), true);
  if (missing.by_layer) read_expert_layers(keys, mixture);
  if (missing.grouped) read_grouped(keys, mixture);
  return mixture;
}

Value gated_experts(Graph& g, const Mixture& m, Value x, const Routes& routes,
                    const MlpNames& names) {
  const auto linear = [&](Value from, const std::string& name, AxisSize out) {
    return g.expert_linear(from, routes, {.count = m.count, .name = name}, out);
  };
  const Value gate = g.map(linear(x, names.gate, m.axis()), m.activation);
  const Value up = linear(x, names.up, m.axis());
  return g.combine(linear(g.mul(gate, up), names.down, hidden_axis(m.hidden)), routes);
}

Value stacked_experts(Graph& g, const Mixture& m, Value x, const Routes& routes, bool transposed) {
  Experts gate_up{.count = m.count,
                  .name = "experts.gate_up_proj",
                  .stack_rows = 2 * m.size,
                  .transposed = transposed};
  const Value gate = g.map(g.expert_linear(x, routes, gate_up, m.axis()), m.activation);
  gate_up.row_begin = m.size;
  const Value up = g.expert_linear(x, routes, gate_up, m.axis());
  const Experts down{.count = m.count,
                     .name = "experts.down_proj",
                     .stack_rows = m.hidden,
                     .transposed = transposed};
  return g.expert_linear(g.mul(gate, up), routes, down, hidden_axis(m.hidden));
}

RouteAttrs routing(const Mixture& m) {
  return {.chosen = m.chosen,
          .groups = m.groups,
          .chosen_groups = m.chosen_groups,
          .renormalised = m.renormalised,
          .scale = m.scale};
}

RouteAttrs biased_routing(const Mixture& m) {
  RouteAttrs spec = routing(m);
  spec.sigmoid = true;
  spec.best_two = m.groups > 1;
  return spec;
}

Block sparse(const Mixture& m, const Mlp& dense, const Block& experts) {
  return [in_layer = m.in_layer, dense = gated_mlp(dense), experts](Graph& g, Value x, int layer) {
    if (!in_layer[static_cast<size_t>(layer)]) return dense(g, x, layer);
    const Scope scope(g, "mlp");
    return experts(g, x, layer);
  };
}

Block grouped_experts(const Mixture& m, const Mlp& dense, const RouteAttrs& routes,
                      const std::string& bias) {
  return sparse(m, dense, [=](Graph& g, Value x, int) {
    const Routes chosen = g.route(g.router(x, "gate", m.count), routes, bias);
    const Value routed = gated_experts(g, m, x, chosen);
    return g.add(routed, scoped_mlp(g, m.shared(), x, "shared_experts"));
  });
}

Block biased_experts(const Mixture& m, const Mlp& dense) {
  return grouped_experts(m, dense, biased_routing(m), "gate.e_score_correction_bias");
}

Block qwen_experts(const Mixture& m, const Mlp& dense) {
  return sparse(m, dense, [=](Graph& g, Value x, int) {
    const RouteAttrs spec = {.chosen = m.chosen, .renormalised = m.renormalised};
    const Value routed = gated_experts(g, m, x, g.route(g.router(x, "gate", m.count), spec));
    if (m.shared_size == 0) return routed;
    // The shared expert is a mixture of one expert, which every token chooses.
    const Routes only =
        g.route(g.router(x, "shared_expert_gate", 1), {.chosen = 1, .sigmoid = true});
    return g.add(routed, g.combine(scoped_mlp(g, m.shared(), x, "shared_expert"), only));
  });
}

}  // namespace lockstep

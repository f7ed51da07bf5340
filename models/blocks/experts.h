// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/blocks/mlp.h"
#include "models/graph/graph.h"

namespace lockstep {

struct Mixture {
  int64_t hidden = 1;
  Function activation = Function::kSilu;
  int64_t count = 0;
  int64_t chosen = 0;       // Experts per token.
  int64_t size = 0;         // Columns of an expert's gate and up.
  int64_t shared_size = 0;  // Columns of the shared expert; 0: none.
  bool renormalised = false;
  int64_t groups = 1;          // Groups of consecutive experts.
  int64_t chosen_groups = 1;   // Experts are chosen from this many groups.
  float scale = 1;             // Multiplies the chosen experts' weights.
  std::vector<bool> in_layer;  // [layers]: whether the layer has experts, not a dense MLP.

  AxisSize axis() const { return ffn_axis(size); }
  Mlp shared() const { return {.hidden = hidden, .width = shared_size, .activation = activation}; }
};

// Defaults of missing keys, and which keys a family reads.
struct MixtureDefaults {
  int64_t count = 0;
  int64_t chosen = 0;
  int64_t size = 0;         // moe_intermediate_size; 0: no such key, use the dense MLP's size.
  int64_t shared_size = 0;  // shared_expert_intermediate_size; 0: no such key.
  bool always_renormalised = false;
  bool renormalised = false;  // The value of a missing norm_topk_prob.
  bool by_layer = false;      // Reads decoder_sparse_step and mlp_only_layers.
  // Reads n_group, topk_group, routed_scaling_factor, n_shared_experts (of `size` each) and
  // first_k_dense_replace, each 1 if missing, and mlp_layer_types.
  bool grouped = false;
};
// `count_key` is the family's name for the number of experts; published files use three names.
Mixture read_mixture(Keys& keys, const Sizes& sizes, const Mlp& mlp, const char* count_key,
                     const MixtureDefaults& missing);
// Renames the number of experts from any of the three names to `count_key`.
void rename_expert_counts(Keys& keys, std::string_view count_key);

// The names of experts that are stored one by one; the star is the expert's number.
inline const MlpNames kExpertNames = {"experts.*.gate_proj", "experts.*.up_proj",
                                      "experts.*.down_proj"};

// The sum over each token's experts of weight * down(activation(gate(x)) * up(x)).
Value gated_experts(Graph& graph, const Mixture& mixture, Value x, const Routes& routes,
                    const MlpNames& names = kExpertNames);
// One row per route: down(activation(gate(x)) * up(x)). The experts are stored as two stacks:
// experts.gate_up_proj [experts, 2 * size, hidden] and experts.down_proj [experts, hidden, size];
// or, if `transposed`, [experts, hidden, 2 * size] and [experts, size, hidden].
Value stacked_experts(Graph& graph, const Mixture& mixture, Value x, const Routes& routes,
                      bool transposed = false);
// The routing that the config describes.
RouteAttrs routing(const Mixture& mixture);
// The routing of DeepSeek-V3 and similar models: a sigmoid of each score, choice within groups.
RouteAttrs biased_routing(const Mixture& mixture);

// Experts in the layers that `mixture` names, the dense MLP in others.
Block sparse(const Mixture& mixture, const Mlp& dense, const Block& experts);
// DeepSeek's MLP: grouped and shared experts, or a dense MLP in some layers. `routes` turns scores
// into weights; `bias` names a vector that is added to scores only for the choice; "": none.
Block grouped_experts(const Mixture& mixture, const Mlp& dense, const RouteAttrs& routes,
                      const std::string& bias = "");
// The same for DeepSeek-V3 and later: a sigmoid of each score, and a learned bias for the choice.
Block biased_experts(const Mixture& mixture, const Mlp& dense);
// Qwen's MLP: experts, with a shared one if the config has it; a dense MLP in some layers.
Block qwen_experts(const Mixture& mixture, const Mlp& dense);

}  // namespace lockstep

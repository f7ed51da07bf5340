// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/blocks/mlp.h"
#include "models/graph.h"

namespace lockstep {

struct Mixture {
  int64_t hidden = 1;
  Function activation = Function::kSilu;
  int64_t count = 0;
  int64_t chosen = 0;       // For each token.
  int64_t size = 0;         // Columns of an expert's gate and up.
  int64_t shared_size = 0;  // Of the shared expert's; 0: there is none.
  bool renormalised = false;
  int64_t groups = 1;          // Neighbours are together in a group.
  int64_t chosen_groups = 1;   // Experts of that many groups are chosen.
  float scale = 1;             // Multiplies the chosen weights.
  std::vector<bool> in_layer;  // [layers]; others have a dense MLP.

  AxisSize axis() const { return ffn_axis(size); }
  Mlp shared() const { return {.hidden = hidden, .width = shared_size, .activation = activation}; }
};

// Defaults of missing keys, and the keys that a family reads.
struct MixtureDefaults {
  int64_t count = 0;
  int64_t chosen = 0;
  int64_t size = 0;  // moe_intermediate_size; 0: that of the dense MLP, there is no such key.
  int64_t shared_size = 0;  // shared_expert_intermediate_size; 0: there is no such key.
  bool always_renormalised = false;
  bool renormalised = false;  // If norm_topk_prob is missing.
  bool by_layer = false;      // decoder_sparse_step and mlp_only_layers are read.
  // n_group, topk_group, routed_scaling_factor, n_shared_experts (of `size` each),
  // first_k_dense_replace, each 1 where it is missing, and mlp_layer_types are read.
  bool grouped = false;
};
// `count_key` is the family's name for their number, which has three in published files.
Mixture read_mixture(Keys& keys, const Sizes& sizes, const Mlp& mlp, const char* count_key,
                     const MixtureDefaults& missing);
// The number of experts goes by the name `count_key`, whichever of the three the file has.
void rename_expert_counts(Keys& keys, std::string_view count_key);

// Tensors by expert: "experts.*.gate_proj", with a star for its number.
inline const MlpNames kExpertNames = {"experts.*.gate_proj", "experts.*.up_proj",
                                      "experts.*.down_proj"};

// The sum over each token's experts of weight * down(activation(gate(x)) * up(x)).
Value gated_experts(Graph& graph, const Mixture& mixture, Value x, const Routes& routes,
                    const MlpNames& names = kExpertNames);
// The rows of routes: each down(activation(gate(x)) * up(x)), of stacks, experts.gate_up_proj
// [experts, 2 * size, hidden] and experts.down_proj; or, transposed, [experts, hidden, 2 * size].
Value stacked_experts(Graph& graph, const Mixture& mixture, Value x, const Routes& routes,
                      bool transposed = false);
// The choice as the config says it.
RouteAttrs routing(const Mixture& mixture);
// The choice of DeepSeek-V3 and its like: by a sigmoid of each score, within groups.
RouteAttrs biased_routing(const Mixture& mixture);

// Experts where `mixture` says that the layer has them, else the dense MLP.
Block sparse(const Mixture& mixture, const Mlp& dense, const Block& experts);
// DeepSeek's MLP: experts of groups beside shared ones, in some layers a dense one. `routes` says
// how scores become weights; `bias` is what its choice adds to them, or none.
Block grouped_experts(const Mixture& mixture, const Mlp& dense, const RouteAttrs& routes,
                      const std::string& bias = "");
// The same as of DeepSeek-V3 on: a sigmoid of each score, and a learned bias of the choice.
Block biased_experts(const Mixture& mixture, const Mlp& dense);
// Qwen's MLP: experts, with a shared one where the config has it, or in some layers a dense one.
Block qwen_experts(const Mixture& mixture, const Mlp& dense);

}  // namespace lockstep

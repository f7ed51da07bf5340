// SPDX-License-Identifier: Apache-2.0
// What config.json says of a mixture of experts.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"

namespace lockstep {

// Of a family: what holds where a key is missing. Its `keys` are among kExpertKeys.
struct FamilyExperts {
  std::string_view count_key;  // "": the family has no experts.
  int64_t count = 0;
  int64_t chosen = 0;
  int64_t size = 0;         // moe_intermediate_size; 0: as intermediate_size, there is no such key.
  int64_t shared_size = 0;  // shared_expert_intermediate_size; 0: there is no such key.
  bool always_renormalised = false;
  bool renormalised = false;  // Where norm_topk_prob is missing.
  bool by_layer = false;      // decoder_sparse_step and mlp_only_layers are read.
  // n_group, topk_group, routed_scaling_factor, n_shared_experts (of `size` each),
  // first_k_dense_replace, each 1 where it is missing, and mlp_layer_types are read.
  bool grouped = false;
};

struct ExpertConfig {
  int64_t count = 0;
  int64_t chosen = 0;
  int64_t size = 0;         // Columns of an expert's gate and up.
  int64_t shared_size = 0;  // Of the shared expert's; 0: there is none.
  bool renormalised = false;
  int64_t groups = 1;  // Neighbours together, and experts of so many groups are chosen:
  int64_t chosen_groups = 1;
  float scale = 1;             // Of the chosen weights.
  bool either_layout = false;  // Stacks are stored with inputs first or outputs first.
  std::vector<bool> in_layer;  // [layers]; others have a dense MLP.
};

// The keys that a family with these experts reads, and whether one is among them.
std::vector<std::string_view> expert_keys(const FamilyExperts& family);
bool reads_expert_key(const FamilyExperts& family, std::string_view key);

// The layers that a list names; none where the key is missing.
absl::StatusOr<std::vector<size_t>> read_layer_list(const Json& json, std::string_view key,
                                                    int64_t layers);

absl::StatusOr<ExpertConfig> read_experts(const Json& json, const FamilyExperts& family, int layers,
                                          int64_t intermediate_size);

}  // namespace lockstep

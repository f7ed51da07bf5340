// SPDX-License-Identifier: Apache-2.0
#include "models/config_experts.h"

#include <algorithm>

#include "base/status.h"
#include "models/config_keys.h"
#include "operators/limits.h"

namespace lockstep {
namespace {

constexpr std::string_view kGroupedKeys[] = {"n_group",
                                             "topk_group",
                                             "routed_scaling_factor",
                                             "n_shared_experts",
                                             "first_k_dense_replace",
                                             "mlp_layer_types"};

// Which layers have experts: those from first_k_dense_replace on, or as mlp_layer_types says.
absl::Status read_sparse_layers(const Json& json, ExpertConfig& experts) {
  std::vector<bool>& sparse = experts.in_layer;
  ASSIGN_OR_RETURN(const int64_t dense, get_int(json, "first_k_dense_replace", 1));
  for (size_t i = 0; i < sparse.size(); ++i) sparse[i] = static_cast<int64_t>(i) >= dense;
  const Json types = json.value("mlp_layer_types", Json());
  if (types.is_null()) return absl::OkStatus();
  if (!types.is_array() || types.size() != sparse.size()) {
    return invalid_argument("mlp_layer_types: must be a list of {} entries, found {}",
                            sparse.size(), describe(types));
  }
  for (size_t i = 0; i < sparse.size(); ++i) {
    if (types[i] != "dense" && types[i] != "sparse") {
      return invalid_argument("mlp_layer_types[{}]: must be dense or sparse, found {}", i,
                              describe(types[i]));
    }
    sparse[i] = types[i] == "sparse";
  }
  return absl::OkStatus();
}

// Groups of experts, shared ones, and the layers before the first that has experts.
absl::Status read_grouped(const Json& json, ExpertConfig& experts) {
  ASSIGN_OR_RETURN(experts.groups, get_count(json, "n_group", experts.count, 1));
  ASSIGN_OR_RETURN(experts.chosen_groups, get_count(json, "topk_group", experts.groups, 1));
  const int64_t each = experts.count / experts.groups;
  // A group counts by its two best.
  if (experts.count % experts.groups != 0 || (experts.groups > 1 && each < 2)) {
    return invalid_argument("n_group: must be groups of two or more of {} experts each, found {}",
                            experts.count, experts.groups);
  }
  if (experts.chosen > each * experts.chosen_groups) {
    return invalid_argument("topk_group: must be groups of at least {} experts together, found {}",
                            experts.chosen, each * experts.chosen_groups);
  }
  ASSIGN_OR_RETURN(const double scale, get_double(json, "routed_scaling_factor", 1));
  if (!(scale >= 1e-6 && scale <= 1e6)) {
    return invalid_argument("routed_scaling_factor: must be a number from 1e-6 to 1e6, found {}",
                            scale);
  }
  experts.scale = static_cast<float>(scale);
  ASSIGN_OR_RETURN(const int64_t shared,
                   get_count(json, "n_shared_experts", kMostColumns / experts.size, 1));
  experts.shared_size = shared * experts.size;
  return read_sparse_layers(json, experts);
}

// Every decoder_sparse_step-th layer has experts, but those that mlp_only_layers names.
absl::Status read_expert_layers(const Json& json, ExpertConfig& experts) {
  const auto layers = static_cast<int64_t>(experts.in_layer.size());
  ASSIGN_OR_RETURN(const int64_t step, get_count(json, "decoder_sparse_step", kMostColumns, 1));
  for (int64_t i = 0; i < layers; ++i) {
    experts.in_layer[static_cast<size_t>(i)] = (i + 1) % step == 0;
  }
  ASSIGN_OR_RETURN(const std::vector<size_t> dense,
                   read_layer_list(json, "mlp_only_layers", layers));
  for (const size_t layer : dense) experts.in_layer[layer] = false;
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string_view> expert_keys(const FamilyExperts& family) {
  if (family.count_key.empty()) return {};
  std::vector<std::string_view> keys = {family.count_key, "num_experts_per_tok"};
  if (family.size != 0) keys.push_back("moe_intermediate_size");
  if (family.shared_size != 0) keys.push_back("shared_expert_intermediate_size");
  if (!family.always_renormalised) keys.push_back("norm_topk_prob");
  if (family.by_layer) keys.insert(keys.end(), {"decoder_sparse_step", "mlp_only_layers"});
  if (family.grouped) keys.insert(keys.end(), std::begin(kGroupedKeys), std::end(kGroupedKeys));
  return keys;
}

bool reads_expert_key(const FamilyExperts& family, std::string_view key) {
  const std::vector<std::string_view> keys = expert_keys(family);
  return std::ranges::find(keys, key) != keys.end();
}

absl::StatusOr<std::vector<size_t>> read_layer_list(const Json& json, std::string_view key,
                                                    int64_t layers) {
  std::vector<size_t> listed;
  const Json found = json.value(std::string(key), Json());
  if (found.is_null()) return listed;
  if (!found.is_array()) {
    return invalid_argument("{}: must be a list of layers, found {}", key, describe(found));
  }
  for (const Json& layer : found) {
    if (!layer.is_number_integer() || layer < 0 || layer >= layers) {
      return invalid_argument("{}: must be layers from 0 to {}, found {}", key, layers - 1,
                              describe(layer));
    }
    listed.push_back(layer.get<size_t>());
  }
  return listed;
}

absl::StatusOr<ExpertConfig> read_experts(const Json& json, const FamilyExperts& family, int layers,
                                          int64_t intermediate_size) {
  ExpertConfig experts;
  if (family.count_key.empty()) return experts;
  ASSIGN_OR_RETURN(experts.count, get_count(json, family.count_key, kMaxExperts, family.count));
  ASSIGN_OR_RETURN(experts.chosen,
                   get_count(json, "num_experts_per_tok", experts.count, family.chosen));
  experts.size = intermediate_size;
  if (family.size != 0) {
    ASSIGN_OR_RETURN(experts.size,
                     get_count(json, "moe_intermediate_size", kMostColumns, family.size));
  }
  if (family.shared_size != 0) {
    ASSIGN_OR_RETURN(experts.shared_size, get_count(json, "shared_expert_intermediate_size",
                                                    kMostColumns, family.shared_size));
  }
  experts.renormalised = family.always_renormalised;
  if (!family.always_renormalised) {
    ASSIGN_OR_RETURN(experts.renormalised, get_bool(json, "norm_topk_prob", family.renormalised));
  }
  experts.in_layer.assign(static_cast<size_t>(layers), true);
  if (family.by_layer) RETURN_IF_ERROR(read_expert_layers(json, experts));
  if (family.grouped) RETURN_IF_ERROR(read_grouped(json, experts));
  return experts;
}

}  // namespace lockstep

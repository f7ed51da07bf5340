// SPDX-License-Identifier: Apache-2.0
#include "models/config_keys.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "base/first_names.h"
#include "models/key_rules.h"

namespace lockstep {
namespace {

// Keys that change the maths and that every family reads.
constexpr std::string_view kKnownKeys[] = {
    "architectures",
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "rms_norm_eps",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "partial_rotary_factor",
    "tie_word_embeddings",
    "hidden_act",
    "torch_dtype",
    "dtype",
    "max_position_embeddings",
    "bos_token_id",
    "eos_token_id",
    "quantization_config",
    "original_max_position_embeddings",
};

// Keys of Mamba-2, by the names of Bamba and Granite 4; some of them decide nothing.
constexpr std::string_view kMambaKeys[] = {
    "mamba_d_conv",      "mamba_conv_bias",       "mamba_n_heads",     "mamba_n_groups",
    "mamba_d_state",     "mamba_d_head",          "mamba_expand",      "mamba_proj_bias",
    "use_bias",          "time_step_limit",       "time_step_min",     "time_step_max",
    "time_step_floor",   "time_step_rank",        "mamba_chunk_size",  "chunk_size",
    "use_mamba_kernels", "mamba_ssm_cache_dtype", "num_logits_to_keep"};

// How many experts there are has three names in published files.
constexpr std::string_view kExpertCounts[] = {"num_experts", "num_local_experts",
                                              "n_routed_experts"};

template <typename Range>
bool contains(const Range& range, std::string_view key) {
  return std::find(std::begin(range), std::end(range), key) != std::end(range);
}

}  // namespace

absl::StatusOr<int64_t> get_count(const Json& json, std::string_view key, int64_t most,
                                  std::optional<int64_t> fallback) {
  ASSIGN_OR_RETURN(const int64_t value, get_int(json, key, fallback));
  if (value < 1 || value > most) {
    return invalid_argument("{}: must be an integer from 1 to {}, found {}", key, most, value);
  }
  return value;
}

bool is_known_key(std::string_view key) { return contains(kKnownKeys, key); }

bool reads_key(const Family& family, std::string_view key) {
  return (!key.empty() && contains(family.keys, key)) ||
         (family.mamba && contains(kMambaKeys, key));
}

std::vector<std::string_view> read_keys(const Family& family) {
  std::vector<std::string_view> keys(std::begin(kKnownKeys), std::end(kKnownKeys));
  std::ranges::copy_if(family.keys, std::back_inserter(keys),
                       [](auto key) { return !key.empty(); });
  if (family.mamba) keys.insert(keys.end(), std::begin(kMambaKeys), std::end(kMambaKeys));
  for (const std::string_view key : expert_keys(family.experts)) keys.push_back(key);
  return keys;
}

absl::StatusOr<Json> unknown_keys(const Json& json, const Family& family) {
  const std::vector<std::string_view> read = read_keys(family);
  Json unknown = Json::object();
  for (const auto& [key, value] : json.items()) {
    if (contains(read, key)) continue;
    ASSIGN_OR_RETURN(const bool harmless, is_harmless(key, value, family));
    if (!harmless) unknown[key] = value;
  }
  return unknown;
}

absl::Status refuse_unknown(std::span<const UnknownKeys> unknown) {
  constexpr size_t kMaxNamed = 32;
  std::vector<std::string> names, values, flags;
  for (const auto& [inside, keys] : unknown) {
    for (const auto& [key, value] : keys.items()) {
      names.push_back(inside + printable(key));
      values.push_back(describe(value));
      flags.push_back("--ignore-config " + names.back());
    }
  }
  if (names.empty()) return absl::OkStatus();
  for (auto* list : {&values, &flags}) list->resize(std::min(names.size(), kMaxNamed));
  return invalid_argument(
      "{}: unknown here and may change what the model computes (found {}); {} runs without {}",
      first_names(names, kMaxNamed), fmt::join(values, ", "), fmt::join(flags, " "),
      names.size() == 1 ? "it" : "them");
}

absl::Status check_only(const Json& json, std::span<const OnlyValue> only) {
  for (const auto& [key, value] : only) {
    const auto found = json.find(key);
    if (found == json.end() || found->is_null() || *found == value) continue;
    return invalid_argument("{}: {} is not supported; supported: {}", key, describe(*found),
                            value.dump());
  }
  return absl::OkStatus();
}

namespace {

// The names that the config has for keys of ours: the family's, and those of any family.
std::vector<KeyName> published_names(const Json& json, const Family& family) {
  std::vector<KeyName> names;
  std::ranges::copy_if(family.names, std::back_inserter(names),
                       [](const KeyName& name) { return !name.published.empty(); });
  names.push_back({"compression_config", "quantization_config"});
  const std::string_view count =
      reads_key(family, "num_local_experts") ? "num_local_experts" : family.experts.count_key;
  for (const std::string_view name : kExpertCounts) {
    if (!count.empty() && name != count && !reads_key(family, name)) names.push_back({name, count});
  }
  for (const auto& [key, value] :
       json.get_ref<const Json::object_t&>()) {  // Older releases of transformers write it.
    const std::string_view plain = std::string_view(key).substr(key.starts_with('_') ? 1 : 0);
    if (plain != key && (is_known_key(plain) || reads_key(family, plain))) {
      names.push_back({key, plain});
    }
  }
  return names;
}

// A list by layer says how many there are.
void count_layers(const Family& family, Json& json) {
  for (const char* key : {"layers_block_type", "layer_types"}) {
    const Json layers = json.value(key, Json());
    if (!json.value("num_hidden_layers", Json()).is_null()) return;
    if (layers.is_array() && reads_key(family, key)) json["num_hidden_layers"] = layers.size();
  }
}

}  // namespace

absl::Status use_our_names(Json& json, const Family& family) {
  if (!json.is_object()) return absl::OkStatus();
  const Json published = json;  // Names may refer to its keys.
  for (const KeyName& name : published_names(published, family)) {
    const auto found = json.find(std::string(name.published));
    if (found == json.end()) continue;
    const Json value = *found;
    json.erase(found);
    Json& ours = json[std::string(name.ours)];
    if (value.is_null()) continue;
    if (!ours.is_null() && ours != value && !name.wins) {
      return invalid_argument("{} and {} are both there and differ: keep one", name.published,
                              name.ours);
    }
    ours = value;
  }
  count_layers(family, json);
  return absl::OkStatus();
}

std::string with_published_name(const Json& json, const Family& family, std::string message) {
  if (!json.is_object()) return message;
  for (const KeyName& name : published_names(json, family)) {
    const std::string prefix = std::string(name.ours) + ":";
    if (!message.starts_with(prefix) || !json.contains(std::string(name.published))) continue;
    return std::string(name.published) + message.substr(name.ours.size());
  }
  return message;
}

}  // namespace lockstep

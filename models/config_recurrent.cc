// SPDX-License-Identifier: Apache-2.0
#include "models/config_recurrent.h"

#include <cmath>
#include <map>
#include <string>

#include "base/status.h"
#include "models/config.h"
#include "models/config_keys.h"
#include "operators/limits.h"

namespace lockstep {

absl::Status read_full_layers(const Json& json, std::string_view key, Config& c) {
  const auto found = json.find(std::string(key));
  const bool given = found != json.end() && !found->is_null();
  c.recurrent.in_layer.assign(static_cast<size_t>(c.layers), given);
  if (!given) return absl::OkStatus();
  if (!found->is_array()) {
    return invalid_argument("{}: must be a list of layers, found {}", key, describe(*found));
  }
  for (const Json& layer : *found) {
    if (!layer.is_number_integer() || layer < 0 || layer >= c.layers) {
      return invalid_argument("{}: must be layers from 0 to {}, found {}", key, c.layers - 1,
                              describe(layer));
    }
    c.recurrent.in_layer[layer.get<size_t>()] = false;
  }
  return absl::OkStatus();
}

absl::Status read_delta_rule(const Json& json, Config& c) {
  RecurrentConfig& r = c.recurrent;
  ASSIGN_OR_RETURN(r.taps, get_count(json, "linear_conv_kernel_dim", kMaxTaps, 4));
  ASSIGN_OR_RETURN(r.k_dim, get_count(json, "linear_key_head_dim", kMaxStateDim, 128));
  ASSIGN_OR_RETURN(r.v_dim, get_count(json, "linear_value_head_dim", kMaxStateDim, 128));
  ASSIGN_OR_RETURN(r.key_heads, get_count(json, "linear_num_key_heads", 1024, 16));
  ASSIGN_OR_RETURN(r.heads, get_count(json, "linear_num_value_heads", 1024, 32));
  if (r.taps < 2) return invalid_argument("linear_conv_kernel_dim: must be 2 or more, found 1");
  if (r.heads % r.key_heads != 0) {
    return invalid_argument(
        "linear_num_value_heads: must be a multiple of linear_num_key_heads ({}), found {}",
        r.key_heads, r.heads);
  }
  ASSIGN_OR_RETURN(const int64_t every, get_count(json, "full_attention_interval", 1024, 4));
  for (int64_t i = 0; i < c.layers; ++i) r.in_layer.push_back((i + 1) % every != 0);
  return absl::OkStatus();
}

absl::Status read_short_conv(const Json& json, Config& c) {
  ASSIGN_OR_RETURN(c.recurrent.bias, get_bool(json, "conv_bias", false));
  ASSIGN_OR_RETURN(c.recurrent.taps, get_count(json, "conv_L_cache", kMaxTaps, 3));
  if (c.recurrent.taps < 2) return invalid_argument("conv_L_cache: must be 2 or more, found 1");
  ASSIGN_OR_RETURN(const bool adjusts, get_bool(json, "block_auto_adjust_ff_dim", true));
  ASSIGN_OR_RETURN(const double factor, get_double(json, "block_ffn_dim_multiplier", 1));
  ASSIGN_OR_RETURN(const int64_t unit, get_count(json, "block_multiple_of", kMostColumns, 256));
  if (adjusts) {
    const auto given = static_cast<double>(c.intermediate_size);
    const double width = std::floor(factor * std::floor(2 * given / 3));
    if (!(width >= 1 && width <= kMostColumns)) {
      return invalid_argument(
          "block_ffn_dim_multiplier: must be one that gives an MLP of 1 to {} columns, found {}",
          kMostColumns, factor);
    }
    c.intermediate_size = (static_cast<int64_t>(width) + unit - 1) / unit * unit;
  }
  return read_full_layers(json, "full_attn_idxs", c);
}

namespace {

// Steps are not bounded: null, or from 0 to infinity, which JSON has no number for.
absl::Status check_step_limit(const Json& json) {
  const Json limit = json.value("time_step_limit", Json());
  if (limit.is_null()) return absl::OkStatus();
  const bool all = limit.is_array() && limit.size() == 2 && limit[0] == 0 && limit[1] == "Infinity";
  if (all) return absl::OkStatus();
  return invalid_argument("time_step_limit: {} is not supported; supported: [0, Infinity]",
                          describe(limit));
}

}  // namespace

absl::Status read_mamba(const Json& json, Config& c) {
  RecurrentConfig& r = c.recurrent;
  ASSIGN_OR_RETURN(r.taps, get_count(json, "mamba_d_conv", kMaxTaps, 4));
  ASSIGN_OR_RETURN(r.bias, get_bool(json, "mamba_conv_bias", true));
  ASSIGN_OR_RETURN(r.heads, get_count(json, "mamba_n_heads", 4096, 128));
  ASSIGN_OR_RETURN(r.key_heads, get_count(json, "mamba_n_groups", 4096, 1));
  ASSIGN_OR_RETURN(r.k_dim, get_count(json, "mamba_d_state", kMaxStateDim, 256));
  if (r.taps < 2) return invalid_argument("mamba_d_conv: must be 2 or more, found 1");
  if (r.heads % r.key_heads != 0) {
    return invalid_argument("mamba_n_groups: must be a divisor of mamba_n_heads ({}), found {}",
                            r.heads, r.key_heads);
  }
  ASSIGN_OR_RETURN(const int64_t expand, get_count(json, "mamba_expand", 64, 2));
  const Json dim = json.value("mamba_d_head", Json());
  if (dim.is_null() || dim == "auto") {
    r.v_dim = expand * c.hidden_size / r.heads;
  } else {
    ASSIGN_OR_RETURN(r.v_dim, get_count(json, "mamba_d_head", kMaxStateDim));
  }
  if (r.v_dim < 1 || r.v_dim > kMaxStateDim || r.heads * r.v_dim > kMostColumns) {
    return invalid_argument("mamba_d_head: must be heads of 1 to {} columns, found {}",
                            kMaxStateDim, r.v_dim);
  }
  const OnlyValue only[] = {{"mamba_proj_bias", false}, {"use_bias", false}};
  RETURN_IF_ERROR(check_only(json, only));
  return check_step_limit(json);
}

absl::Status read_block_pattern(const Json& json, Config& c) {
  const std::map<std::string, char> letters = {
      {"linear_attention", 'M'}, {"mamba", 'M'}, {"full_attention", '*'},
      {"attention", '*'},        {"mlp", '-'},   {"moe", 'E'}};
  std::string& pattern = c.recurrent.pattern;
  ASSIGN_OR_RETURN(pattern, get_string(json, "hybrid_override_pattern", ""));
  const Json words = json.value("layers_block_type", Json());
  if (words.is_array()) pattern.clear();
  for (const Json& word : words.is_array() ? words : Json::array()) {
    const auto found = word.is_string() ? letters.find(word.get<std::string>()) : letters.end();
    pattern += found == letters.end() ? '?' : found->second;
  }
  if (pattern.size() == static_cast<size_t>(c.layers) &&
      pattern.find_first_not_of("M*-E") == std::string::npos) {
    return absl::OkStatus();
  }
  return invalid_argument("hybrid_override_pattern: must be {} letters M, *, - or E, found {}",
                          c.layers, printable(pattern));
}

absl::Status check_output_gate(const Json& json) {
  ASSIGN_OR_RETURN(const bool gate, get_bool(json, "attn_output_gate", true));
  if (gate) return absl::OkStatus();
  return invalid_argument("attn_output_gate: false is not supported; supported: true");
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "models/config_rwkv.h"

#include <algorithm>

#include "base/status.h"
#include "models/config.h"
#include "models/config_keys.h"
#include "operators/limits.h"

namespace lockstep {
namespace {

constexpr int64_t kPositions = 32768;  // That a text may have, if the config does not say more.

// Heads follow from their size: num_attention_heads is another number in published files.
absl::Status read_heads(Config& c) {
  if (c.hidden_size % c.head_dim != 0) {
    return invalid_argument("head_dim: must be a divisor of hidden_size ({}), found {}",
                            c.hidden_size, c.head_dim);
  }
  c.heads = c.kv_heads = c.hidden_size / c.head_dim;
  c.max_position_embeddings = std::max(c.max_position_embeddings, kPositions);
  c.rwkv.norm_eps = 64e-5f;
  return absl::OkStatus();
}

}  // namespace

absl::Status read_rwkv4(const Json& json, Config& c) {
  c.max_position_embeddings = std::max(c.max_position_embeddings, kPositions);
  ASSIGN_OR_RETURN(c.rwkv.width,
                   get_count(json, "attention_hidden_size", kMostColumns, c.hidden_size));
  return absl::OkStatus();
}

absl::Status read_rwkv5(const Json& json, Config& c) {
  RETURN_IF_ERROR(read_heads(c));
  ASSIGN_OR_RETURN(const int64_t width,
                   get_count(json, "attention_hidden_size", kMostColumns, c.hidden_size));
  if (width == c.hidden_size) return absl::OkStatus();
  return invalid_argument("attention_hidden_size: must be hidden_size ({}), found {}",
                          c.hidden_size, width);
}

absl::Status read_rwkv6(const Json& json, Config& c) {
  RETURN_IF_ERROR(read_heads(c));
  ASSIGN_OR_RETURN(c.rwkv.mix_rank, get_count(json, "mix_low_rank_dim", kMostColumns));
  ASSIGN_OR_RETURN(c.rwkv.decay_rank, get_count(json, "decay_low_rank_dim", kMostColumns));
  return absl::OkStatus();
}

absl::Status read_rwkv7(const Json& json, Config& c) {
  RETURN_IF_ERROR(read_heads(c));
  ASSIGN_OR_RETURN(c.rwkv.decay_rank, get_count(json, "decay_low_rank_dim", kMostColumns));
  ASSIGN_OR_RETURN(c.rwkv.rate_rank, get_count(json, "a_low_rank_dim", kMostColumns));
  ASSIGN_OR_RETURN(c.rwkv.gate_rank, get_count(json, "gate_low_rank_dim", kMostColumns));
  if (c.layers > 1) {
    ASSIGN_OR_RETURN(c.rwkv.value_rank, get_count(json, "v_low_rank_dim", kMostColumns));
  }
  return absl::OkStatus();
}

absl::Status read_fla_rwkv7(const Json& json, Config& c) {
  RETURN_IF_ERROR(read_rwkv7(json, c));
  c.rwkv.norm_eps = static_cast<float>(c.head_dim) * c.norm_eps;
  const OnlyValue only[] = {{"norm_first", true}, {"norm_bias", true}};
  RETURN_IF_ERROR(check_only(json, only));
  const Json found = json.value("value_dim", Json());
  for (const Json& width : found.is_array() ? found : Json::array({found})) {
    if (width.is_null() || width == c.hidden_size) continue;
    return invalid_argument("value_dim: must be hidden_size ({}) in every layer, found {}",
                            c.hidden_size, describe(width));
  }
  return absl::OkStatus();
}

}  // namespace lockstep

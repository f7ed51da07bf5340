// SPDX-License-Identifier: Apache-2.0
#include "models/config_latent.h"

#include "base/math.h"
#include "base/status.h"
#include "models/config.h"
#include "models/config_keys.h"
#include "operators/limits.h"

namespace lockstep {
namespace {

// Yarn multiplies scores by the square of 0.1 * mscale_all_dim * log(factor) + 1. What else is in
// the object is checked where the table is made.
absl::StatusOr<double> yarn_scale(const Json& json) {
  const char* key =
      json.value("rope_parameters", Json()).is_object() ? "rope_parameters" : "rope_scaling";
  const Json rope = json.value(key, Json());
  if (!rope.is_object()) return 1.0;
  const absl::StatusOr<double> mscale = get_double(rope, "mscale_all_dim", 0);
  if (!mscale.ok()) return invalid_argument("{}.{}", key, message_of(mscale.status()));
  if (*mscale == 0) return 1.0;
  const absl::StatusOr<double> factor = get_double(rope, "factor");
  if (!factor.ok()) return invalid_argument("{}.{}", key, message_of(factor.status()));
  const double root = *factor <= 1 ? 1 : 0.1 * *mscale * exact_log(*factor) + 1;
  return root * root;
}

}  // namespace

absl::Status read_latent(const Json& json, Config& config) {
  LatentConfig& latent = config.latent;
  const bool direct = json.contains("q_lora_rank") && json["q_lora_rank"].is_null();
  if (!direct) {
    ASSIGN_OR_RETURN(latent.q_width, get_count(json, "q_lora_rank", kMostColumns));
  }
  const auto size = [&](const char* key, int64_t most) { return get_count(json, key, most); };
  ASSIGN_OR_RETURN(latent.kv_width, size("kv_lora_rank", kMaxStateDim - config.head_dim));
  ASSIGN_OR_RETURN(latent.nope_dim, size("qk_nope_head_dim", kMaxStateDim));
  ASSIGN_OR_RETURN(latent.v_dim, size("v_head_dim", kMaxStateDim));
  const int64_t q_dim = latent.nope_dim + config.head_dim;
  ASSIGN_OR_RETURN(const int64_t stated, get_count(json, "qk_head_dim", kMostColumns, q_dim));
  if (stated != q_dim) {
    return invalid_argument(
        "qk_head_dim: must be qk_nope_head_dim + qk_rope_head_dim, {}, found {}", q_dim, stated);
  }
  ASSIGN_OR_RETURN(const double yarn, yarn_scale(json));
  config.attention_scale = static_cast<float>(exact_pow(static_cast<double>(q_dim), -0.5) * yarn);
  return absl::OkStatus();
}

}  // namespace lockstep

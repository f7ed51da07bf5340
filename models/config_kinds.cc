// SPDX-License-Identifier: Apache-2.0
#include "models/config_kinds.h"

#include <algorithm>
#include <string>

#include "base/status.h"
#include "models/config.h"
#include "models/config_keys.h"

namespace lockstep {
namespace {

// per_layer_config: what single layers have in place of head_dim and num_key_value_heads. Those of
// layers without a window, all alike, are how newer configs say global_head_dim.
absl::StatusOr<Json> full_layer_of(const Json& json) {
  const Json layers = json.value("per_layer_config", Json());
  if (layers.is_null()) return json;
  if (!layers.is_object() || layers.empty() || !layers.begin()->is_object()) {
    return invalid_argument("per_layer_config: must be an object for each layer, found {}",
                            describe(layers));
  }
  const Json& first = *layers.begin();
  for (const auto& [layer, sizes] : layers.items()) {
    if (sizes == first) continue;
    return invalid_argument("per_layer_config.{}: must be {}, as the others, found {}", layer,
                            first.dump(), describe(sizes));
  }
  for (const auto& [key, value] : first.items()) {
    if (key == "head_dim" || key == "num_key_value_heads") continue;
    return invalid_argument(
        "per_layer_config: {} is not supported; supported: head_dim and "
        "num_key_value_heads",
        printable(key));
  }
  return Json{{"global_head_dim", first.value("head_dim", Json())},
              {"num_global_key_value_heads", first.value("num_key_value_heads", Json())}};
}

absl::Status read_full_heads(const Json& json, Config& config) {
  KindConfig& kinds = config.kinds;
  ASSIGN_OR_RETURN(const Json full, full_layer_of(json));
  const bool by_layer = full != json;
  ASSIGN_OR_RETURN(kinds.full_head_dim,
                   get_count(full, "global_head_dim", 1024, by_layer ? config.head_dim : 512));
  ASSIGN_OR_RETURN(kinds.full_v_is_k, get_bool(json, "attention_k_eq_v", false));
  kinds.full_kv_heads = config.kv_heads;
  if (kinds.full_v_is_k || by_layer) {
    ASSIGN_OR_RETURN(kinds.full_kv_heads,
                     get_count(full, "num_global_key_value_heads", config.heads, config.kv_heads));
  }
  if (config.heads % kinds.full_kv_heads != 0) {
    return invalid_argument(
        "num_global_key_value_heads: must be a divisor of num_attention_heads ({}), found {}",
        config.heads, kinds.full_kv_heads);
  }
  if (config.heads * kinds.full_head_dim <= kMostColumns) return absl::OkStatus();
  return invalid_argument("num_attention_heads * global_head_dim: must be at most {}, found {}",
                          kMostColumns, config.heads * kinds.full_head_dim);
}

absl::Status read_embeddings_by_layer(const Json& json, Config& config) {
  constexpr int64_t kMostWidth = 1 << 12;
  KindConfig& kinds = config.kinds;
  ASSIGN_OR_RETURN(kinds.by_layer_width, get_int(json, "hidden_size_per_layer_input", 256));
  if (kinds.by_layer_width < 0 || kinds.by_layer_width > kMostWidth) {
    return invalid_argument("hidden_size_per_layer_input: must be 0 to {}, found {}", kMostWidth,
                            kinds.by_layer_width);
  }
  if (kinds.by_layer_width == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(kinds.by_layer_rows, get_int(json, "vocab_size_per_layer_input", 262144));
  if (kinds.by_layer_rows < config.vocab_size || kinds.by_layer_rows > 1 << 24) {
    return invalid_argument("vocab_size_per_layer_input: must be vocab_size ({}) to {}, found {}",
                            config.vocab_size, 1 << 24, kinds.by_layer_rows);
  }
  ASSIGN_OR_RETURN(kinds.absent_id, get_int(json, "pad_token_id", 0));
  if (kinds.absent_id >= 0 && kinds.absent_id < config.vocab_size) return absl::OkStatus();
  return invalid_argument("pad_token_id: must be a token id from 0 to {}, found {}",
                          config.vocab_size - 1, kinds.absent_id);
}

}  // namespace

absl::Status read_kinds(const Json& json, Config& config) {
  KindConfig& kinds = config.kinds;
  const OnlyValue causal[] = {{"use_bidirectional_attention", "vision"}};  // Not of text.
  RETURN_IF_ERROR(check_only(json, causal));
  RETURN_IF_ERROR(read_full_heads(json, config));
  RETURN_IF_ERROR(read_embeddings_by_layer(json, config));
  ASSIGN_OR_RETURN(const int64_t sharing, get_int(json, "num_kv_shared_layers", 0));
  if (sharing < 0 || sharing >= config.layers) {
    return invalid_argument("num_kv_shared_layers: must be 0 to {}, found {}", config.layers - 1,
                            sharing);
  }
  kinds.first_sharing = config.layers - static_cast<int>(sharing);
  ASSIGN_OR_RETURN(const bool wide, get_bool(json, "use_double_wide_mlp", false));
  kinds.sharing_ffn = config.intermediate_size * (wide ? 2 : 1);
  config.attention_scale = 1;
  return absl::OkStatus();
}

absl::Status check_kinds(const Json& json, Config& config) {
  config.windows.back() = 0;  // Whatever layer_types says.
  const auto own = config.windows.begin() + config.kinds.first_sharing;
  for (auto layer = own; layer != config.windows.end(); ++layer) {
    const bool full = *layer == 0;
    const auto same = [&](int64_t window) { return (window == 0) == full; };
    if (std::any_of(config.windows.begin(), own, same)) continue;
    return invalid_argument(
        "num_kv_shared_layers: no layer of the kind {} is left that the others could share with",
        full ? "full_attention" : "sliding_attention");
  }
  ASSIGN_OR_RETURN(const bool experts, get_bool(json, "enable_moe_block", false));
  if (!experts) config.experts = {};
  return absl::OkStatus();
}

}  // namespace lockstep

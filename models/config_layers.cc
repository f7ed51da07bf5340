// SPDX-License-Identifier: Apache-2.0
#include "models/config_layers.h"

#include <algorithm>
#include <string>

#include "models/config_keys.h"

namespace lockstep {
namespace {

// no_rope_layers has a 1 where a layer turns.
absl::Status read_turns(const Json& json, const Family& family, Config& config) {
  config.turns.assign(config.layers, config.slopes.empty() && config.position_rows == 0);
  if (family.no_rope_every == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t every,
                   get_count(json, "no_rope_layer_interval", 1024, family.no_rope_every));
  for (int64_t i = 0; i < config.layers; ++i) config.turns[i] = (i + 1) % every != 0;
  const auto found = json.find("no_rope_layers");
  if (found == json.end() || found->is_null() || *found == Json::array()) return absl::OkStatus();
  if (!found->is_array() || static_cast<int>(found->size()) < config.layers) {
    return invalid_argument(
        "no_rope_layers: must be a list of {} layers, found {}", config.layers,
        found->is_array() ? fmt::format("{}", found->size()) : describe(*found));
  }
  for (int i = 0; i < config.layers; ++i) {
    const Json& turns = (*found)[i];
    if (turns != 0 && turns != 1) {
      return invalid_argument("no_rope_layers[{}]: must be 0 or 1, found {}", i, describe(turns));
    }
    config.turns[i] = turns == 1;
  }
  return absl::OkStatus();
}

// sliding_window_pattern, which layers repeat: "LLLG", with an L for a window, or 4 for the same.
absl::StatusOr<std::string> read_pattern(const Json& json, const Family& family) {
  const Json given = json.value("sliding_window_pattern", Json());
  if (!given.is_string()) {
    ASSIGN_OR_RETURN(const int64_t full_every,
                     get_count(json, "sliding_window_pattern", 1024, family.full_every));
    return std::string(full_every - 1, 'L') + "G";
  }
  const std::string pattern = given.get<std::string>();
  const bool right = pattern.find_first_not_of("LG") == std::string::npos;
  if (right && !pattern.empty() && pattern.size() <= 1024) return pattern;
  return invalid_argument("sliding_window_pattern: must be a number or letters L and G, found {}",
                          describe(given));
}

// The window that every layer would have, and which layers have it by the family's rule.
absl::Status read_windows(const Json& json, const Family& family, Config& config) {
  config.windows.assign(config.layers, 0);
  if (family.window == WindowRule::kNone) return absl::OkStatus();
  ASSIGN_OR_RETURN(const bool used, get_bool(json, "use_sliding_window", false));
  const bool always =
      family.window == WindowRule::kAllLayers || family.window == WindowRule::kPattern;
  if (!always && !used) return absl::OkStatus();
  const bool given = json.contains("sliding_window");
  if (given ? json["sliding_window"].is_null() : family.default_window == 0) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const int64_t window,
                   get_count(json, "sliding_window", 1 << 24, family.default_window));
  int64_t first = 0;
  std::string pattern;
  if (family.window == WindowRule::kPattern) {
    ASSIGN_OR_RETURN(pattern, read_pattern(json, family));
  }
  if (family.window == WindowRule::kByLayer) {
    ASSIGN_OR_RETURN(first, get_int(json, "max_window_layers", family.max_window_layers));
  }
  for (int64_t i = std::max<int64_t>(first, 0); i < config.layers; ++i) {
    const bool full = family.window == WindowRule::kNoRope    ? config.turns[i]
                      : family.window == WindowRule::kPattern ? pattern[i % pattern.size()] == 'G'
                                                              : false;
    config.windows[i] = full ? 0 : window;
  }
  return absl::OkStatus();
}

absl::Status read_chunks(const Json& json, Config& config) {
  ASSIGN_OR_RETURN(const int64_t chunk, get_count(json, "attention_chunk_size", 1 << 24, 8192));
  const Json types = json.value("layer_types", Json());
  if (!types.is_null() && (!types.is_array() || static_cast<int>(types.size()) != config.layers)) {
    return invalid_argument("layer_types: must be a list of {} layers, found {}", config.layers,
                            types.is_array() ? fmt::format("{}", types.size()) : describe(types));
  }
  for (size_t i = 0; i < config.turns.size(); ++i) {
    const bool chunked = types.is_null() ? config.turns[i] : types[i] == "chunked_attention";
    config.chunks.push_back(chunked ? chunk : 0);
    if (types.is_null() || chunked || types[i] == "full_attention") continue;
    return invalid_argument(
        "layer_types[{}]: {} is not supported; supported: full_attention, chunked_attention", i,
        describe(types[i]));
  }
  config.windows.assign(config.turns.size(), 0);
  return absl::OkStatus();
}

// Attention to the positions that an indexer chooses: all, as far as a context goes here.
bool is_indexed(const Json& type) {
  return type == "indexed_attention" || type == "deepseek_sparse_attention";
}

// layer_types is by layer what the other keys say for all; where it is read, it decides.
absl::Status read_layer_types(const Json& json, const Family& family, Config& config) {
  if (!json.contains("layer_types") || json["layer_types"].is_null()) return absl::OkStatus();
  const Json& types = json["layer_types"];
  if (!types.is_array() || static_cast<int>(types.size()) != config.layers) {
    return invalid_argument("layer_types: must be a list of {} layers, found {}", config.layers,
                            types.is_array() ? fmt::format("{}", types.size()) : describe(types));
  }
  ASSIGN_OR_RETURN(const int64_t window, get_int(json, "sliding_window", family.default_window));
  ASSIGN_OR_RETURN(const bool used, get_bool(json, "use_sliding_window", false));
  const std::string_view recurrent = family.recurrent_type;
  const bool slides = family.window != WindowRule::kNone || recurrent.empty();
  for (int i = 0; i < config.layers; ++i) {
    config.recurrent.in_layer[i] =
        !recurrent.empty() && (types[i] == recurrent || types[i] == "linear_attention");
    if (config.recurrent.in_layer[i]) continue;
    const bool full = types[i] == "full_attention" || types[i] == "attention" ||
                      (config.most_positions > 0 && is_indexed(types[i]));
    if (!full && (!slides || types[i] != "sliding_attention")) {
      return invalid_argument("layer_types[{}]: {} is not supported; supported: full_attention, {}",
                              i, describe(types[i]), slides ? "sliding_attention" : recurrent);
    }
    const WindowRule rule = family.window;
    const bool decides = rule == WindowRule::kPattern ||
                         (used && (rule == WindowRule::kByLayer || rule == WindowRule::kNoRope));
    if (decides) {
      config.windows[i] = full ? 0 : window;
    } else if (full != (config.windows[i] == 0)) {
      return invalid_argument("layer_types[{}]: {} contradicts the layer's window of {}", i,
                              describe(types[i]), config.windows[i]);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status read_layers(const Json& json, const Family& family, Config& config) {
  config.recurrent.in_layer.resize(static_cast<size_t>(config.layers));
  RETURN_IF_ERROR(read_turns(json, family, config));
  if (family.window == WindowRule::kChunks) return read_chunks(json, config);
  RETURN_IF_ERROR(read_windows(json, family, config));
  RETURN_IF_ERROR(read_layer_types(json, family, config));
  const bool windows = json.contains("sliding_window") ? !json["sliding_window"].is_null()
                                                       : family.default_window != 0;
  if (family.only_windows_turn && windows) {
    for (int i = 0; i < config.layers; ++i) config.turns[i] = config.windows[i] > 0;
  }
  return absl::OkStatus();
}

}  // namespace lockstep

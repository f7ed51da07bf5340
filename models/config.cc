// SPDX-License-Identifier: Apache-2.0
// config.json to Config: every key is accounted for, every number has a range.
#include "models/config.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/math.h"
#include "models/config_keys.h"
#include "models/config_layers.h"
#include "models/config_quantization.h"
#include "models/query_scales.h"
#include "models/rope.h"
#include "models/size_names.h"

namespace lockstep {
namespace {

absl::Status read_sizes(const Json& json, const Family& family, Config& config) {
  ASSIGN_OR_RETURN(config.vocab_size, get_count(json, "vocab_size", 1 << 24));
  ASSIGN_OR_RETURN(config.hidden_size, get_count(json, "hidden_size", kMostColumns));
  std::optional<int64_t> ffn;
  if (family.ffn_per_hidden != 0) {
    const double hidden = static_cast<double>(config.hidden_size);
    ffn = static_cast<int64_t>(family.ffn_per_hidden * hidden);
  }
  ASSIGN_OR_RETURN(config.intermediate_size,
                   get_count(json, "intermediate_size", kMostColumns, ffn));
  ASSIGN_OR_RETURN(const int64_t layers, get_count(json, "num_hidden_layers", 1024));
  config.layers = static_cast<int>(layers);
  ASSIGN_OR_RETURN(config.heads, get_count(json, "num_attention_heads", 4096));
  const bool kv_heads_missing = !json.contains("num_key_value_heads") && family.kv_heads != 0;
  ASSIGN_OR_RETURN(config.kv_heads, get_count(json, "num_key_value_heads", 4096,
                                              kv_heads_missing ? family.kv_heads : config.heads));
  if (config.heads % config.kv_heads != 0) {
    return invalid_argument(
        "num_key_value_heads: must be a divisor of num_attention_heads ({}), found {}",
        config.heads, config.kv_heads);
  }
  const int64_t implied =
      family.head_dim != 0 ? family.head_dim : config.hidden_size / config.heads;
  ASSIGN_OR_RETURN(config.head_dim, get_count(json, "head_dim", 1024, implied));
  const bool given = json.contains("head_dim") && !json["head_dim"].is_null();
  if (!given && family.head_dim == 0 && config.hidden_size % config.heads != 0) {
    return invalid_argument(
        "hidden_size: must be a multiple of num_attention_heads ({}) as there is no head_dim, "
        "found {}",
        config.heads, config.hidden_size);
  }
  if (config.heads * config.head_dim > kMostColumns) {
    return invalid_argument("num_attention_heads * head_dim: must be at most {}, found {}",
                            kMostColumns, config.heads * config.head_dim);
  }
  std::optional<int64_t> positions;
  if (family.positions != 0) positions = family.positions;
  ASSIGN_OR_RETURN(config.max_position_embeddings,
                   get_count(json, "max_position_embeddings", 1 << 24, positions));
  return absl::OkStatus();
}

struct Activation {
  std::string_view name;
  Function function;
};
constexpr Activation kActivations[] = {
    {"silu", Function::kSilu},
    {"swish", Function::kSilu},
    {"gelu", Function::kGelu},
    {"gelu_python", Function::kGelu},
    {"gelu_pytorch_tanh", Function::kGeluTanh},
    {"gelu_new", Function::kGeluTanh},
    {"gelu_fast", Function::kGeluTanh},  // The same formula, with sqrt(2 / pi) to 8 digits.
    {"gelu_accurate", Function::kGeluTanh},
    {"relu", Function::kRelu},
    {"relu2", Function::kReluSquared},
    {"sqrelu", Function::kReluSquared},
};

absl::StatusOr<Function> read_activation(const Json& json, const Family& family,
                                         const Config& config) {
  ASSIGN_OR_RETURN(const std::string name,
                   get_string(json, "hidden_act", std::string(family.activation)));
  std::string supported;
  for (const Activation& known : kActivations) {
    if (known.name == name) return known.function;
    supported += supported.empty() ? known.name : fmt::format(", {}", known.name);
  }
  return invalid_argument("hidden_act: \"{}\" is not supported for {}; supported: {}",
                          printable(name), config.architecture, supported);
}

// A number above 0 that is 1 where the key is missing, which then multiplies or divides nothing.
absl::StatusOr<float> factor_of(const Json& json, std::string_view key, double fallback = 1) {
  ASSIGN_OR_RETURN(const double factor, get_double(json, key, fallback));
  if (factor >= 1e-6 && factor <= 1e6) return static_cast<float>(factor);
  return invalid_argument("{}: must be a number from 1e-6 to 1e6, found {}", key, factor);
}

// null and a missing fallback are no cap.
absl::StatusOr<float> cap_of(const Json& json, std::string_view key, double fallback) {
  const auto found = json.find(std::string(key));
  if (found == json.end() ? fallback == 0 : found->is_null()) return 0.0f;
  return factor_of(json, key, fallback);
}

// What multiplies scores, embeddings, halves of a layer and logits, and what caps them.
absl::Status read_factors(const Json& json, const Family& family, Config& config) {
  const auto reads = [&](std::string_view key) { return reads_key(family, key); };
  const double dim = static_cast<double>(config.head_dim);
  if (config.attention_scale == 0) {
    config.attention_scale = static_cast<float>(exact_pow(dim, -0.5));
  }
  if (reads("query_pre_attn_scalar")) {
    ASSIGN_OR_RETURN(const float scalar,
                     factor_of(json, "query_pre_attn_scalar", family.query_pre_attn_scalar));
    config.attention_scale = static_cast<float>(exact_pow(scalar, -0.5));
  }
  if (reads("attention_multiplier")) {
    ASSIGN_OR_RETURN(config.attention_scale, factor_of(json, "attention_multiplier"));
  }
  ASSIGN_OR_RETURN(config.attention_cap,
                   cap_of(json, "attn_logit_softcapping", family.attention_cap));
  ASSIGN_OR_RETURN(config.logits_cap, cap_of(json, "final_logit_softcapping", family.logits_cap));
  ASSIGN_OR_RETURN(config.embedding_multiplier, factor_of(json, "embedding_multiplier"));
  if (family.embedding_by_sqrt_hidden) {
    const double hidden = static_cast<double>(config.hidden_size);
    config.embedding_multiplier = static_cast<float>(std::sqrt(hidden));
  }
  ASSIGN_OR_RETURN(config.residual_multiplier, factor_of(json, "residual_multiplier"));
  ASSIGN_OR_RETURN(const float divisor, factor_of(json, "logits_scaling"));
  ASSIGN_OR_RETURN(const float multiplier, factor_of(json, "logit_scale", family.logit_scale));
  config.logits_multiplier = multiplier / divisor;
  return absl::OkStatus();
}

absl::Status read_maths(const Json& json, const Family& family, Config& config) {
  ASSIGN_OR_RETURN(const double eps, get_double(json, "rms_norm_eps", family.norm_eps));
  if (eps <= 0 || eps > 0.1) {
    return invalid_argument("rms_norm_eps: must be a number above 0 and up to 0.1, found {}", eps);
  }
  config.norm_eps = static_cast<float>(eps);
  config.norm_plus = family.norm_plus_one ? 1 : 0;
  config.layer_norm = family.layer_norm;
  config.norm_bias = family.layer_norm && family.norm_bias;
  ASSIGN_OR_RETURN(config.activation, read_activation(json, family, config));
  ASSIGN_OR_RETURN(config.tie_word_embeddings,
                   get_bool(json, "tie_word_embeddings", family.tie_word_embeddings));
  ASSIGN_OR_RETURN(config.output_bias, get_bool(json, "attention_bias", family.attention_bias));
  ASSIGN_OR_RETURN(const bool qkv_bias, get_bool(json, "use_qkv_bias", family.qkv_bias));
  config.qkv_bias = qkv_bias || config.output_bias;
  ASSIGN_OR_RETURN(config.mlp_bias, get_bool(json, "mlp_bias", family.mlp_bias));
  config.head_bias = family.head_bias;
  config.qk_norm = family.qk_norm;
  if (reads_key(family, "use_qk_norm")) {
    ASSIGN_OR_RETURN(const bool used, get_bool(json, "use_qk_norm", false));
    if (!used) config.qk_norm = {};
  }
  ASSIGN_OR_RETURN(const bool parallel, get_bool(json, "use_parallel_residual", family.parallel));
  config.parallel_norms = parallel ? family.parallel_norms : 0;
  return absl::OkStatus();
}

absl::Status read_dtype(const Json& json, Config& config) {
  for (const char* key : {"torch_dtype", "dtype"}) {
    ASSIGN_OR_RETURN(const std::string name, get_string(json, key, "auto"));
    if (name == "auto") continue;
    config.dtype = DType::kNone;
    for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      if (name == dtype_name(dtype)) config.dtype = dtype;
    }
    if (config.dtype == DType::kNone) {
      return invalid_argument("{}: \"{}\" is not supported; supported: float32, bfloat16, float16",
                              key, printable(name));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int64_t>> token_ids(const Json& json, std::string_view key,
                                               int64_t vocab_size) {
  std::vector<int64_t> ids;
  if (!json.contains(std::string(key)) || json[std::string(key)].is_null()) return ids;
  const Json& found = json[std::string(key)];
  for (const Json& id : found.is_array() ? found : Json::array({found})) {
    if (!id.is_number_integer() || id < 0 || id >= vocab_size) {
      return invalid_argument("{}: must be a token id from 0 to {}, or a list, found {}", key,
                              vocab_size - 1, describe(id));
    }
    ids.push_back(id.get<int64_t>());
  }
  return ids;
}

absl::Status set_context(double reach, int64_t override, Config& config) {
  const int64_t bound = config.most_positions == 0 ? INT64_MAX : config.most_positions;
  config.context = std::min(config.max_position_embeddings, bound);
  if (override == 0) return absl::OkStatus();
  const auto most = std::min(
      static_cast<int64_t>(static_cast<double>(config.max_position_embeddings) * reach), bound);
  if (override < 1 || override > most) {
    return invalid_argument(
        "--max-context {}: must be 1 to {}, what max_position_embeddings, the rotary scaling and "
        "the kinds of attention that there are here allow",
        override, most);
  }
  config.context = override;
  return absl::OkStatus();
}

// Both tables; how far the scaling of layers that see all positions reaches.
absl::StatusOr<double> read_ropes(const Json& json, const Family& family, Config& config) {
  RopeFacts facts{.head_dim = config.head_dim,
                  .max_positions = config.max_position_embeddings,
                  .theta = family.rope_theta,
                  .part = family.partial_rotary,
                  .interleaved = family.rope_interleaved,
                  .yarn_is_longrope = family.yarn_is_longrope,
                  .fixed_alpha = family.rope_fixed_alpha,
                  .ntk_length = config.ntk_length};
  ASSIGN_OR_RETURN(const float ratio, factor_of(json, "rope_ratio"));
  facts.theta *= ratio;
  if (reads_key(family, "rotary_dim") && json.contains("rotary_dim")) {
    ASSIGN_OR_RETURN(facts.dim, get_count(json, "rotary_dim", config.head_dim, config.head_dim));
  }
  Json full = json, window = Json::object();
  bool by_layer = false;
  if (family.window_rope_theta != 0) {
    ASSIGN_OR_RETURN(window["rope_theta"],
                     get_double(json, "rope_local_base_freq", family.window_rope_theta));
    const Json by_kind = json.value("rope_parameters", Json());
    if (by_kind.is_object() && by_kind.contains("full_attention")) {
      full["rope_parameters"] = by_kind["full_attention"];
      window["rope_parameters"] = by_kind.value("sliding_attention", Json());
      by_layer = true;
    }
  }
  QueryScaling queries;
  if (reads_key(family, "llama_4_scaling_beta")) {
    ASSIGN_OR_RETURN(queries, take_query_scaling(full["rope_parameters"]));
  }
  if (reads_key(family, "attn_temperature_tuning")) {
    ASSIGN_OR_RETURN(queries, read_temperature(json));
  }
  if (config.latent.kv_width > 0 && full["rope_parameters"].is_object()) {
    full["rope_parameters"].erase("partial_rotary_factor");  // That of nope_dim + head_dim.
  }
  RopeFacts of_full = facts;
  if (by_layer) of_full.member = ".full_attention", facts.member = ".sliding_attention";
  if (config.kinds.full_head_dim != 0) of_full.head_dim = config.kinds.full_head_dim;
  ASSIGN_OR_RETURN(RopeConfig rope, parse_rope(full, of_full));
  const double positions = static_cast<double>(config.max_position_embeddings) * rope.reach;
  RETURN_IF_ERROR(set_query_scales(queries, positions, config));
  config.rope = config.window_rope = std::move(rope.rope);
  if (family.window_rope_theta != 0) {
    ASSIGN_OR_RETURN(RopeConfig of_windows, parse_rope(window, facts));
    config.window_rope = std::move(of_windows.rope);
  }
  return rope.reach;
}

// Every key is read, harmless by a rule, or an error.
absl::Status check_keys(const Json& json, const ConfigSource& source, const Family& family) {
  ASSIGN_OR_RETURN(const Json beside, unknown_keys(source.beside, Family{}));
  ASSIGN_OR_RETURN(const Json unknown, unknown_keys(json, family));
  const UnknownKeys all[] = {{"", beside},
                             {source.object.empty() ? "" : source.object + ".", unknown}};
  return refuse_unknown(all);
}

absl::Status read_all(const Json& json, const Family& family, int64_t max_context_override,
                      Config& config) {
  RETURN_IF_ERROR(read_sizes(json, family, config));
  RETURN_IF_ERROR(read_maths(json, family, config));
  if (family.refine != nullptr) RETURN_IF_ERROR(family.refine(json, config));
  RETURN_IF_ERROR(read_factors(json, family, config));
  RETURN_IF_ERROR(read_dtype(json, config));
  RETURN_IF_ERROR(read_layers(json, family, config));
  ASSIGN_OR_RETURN(config.experts,
                   read_experts(json, family.experts, config.layers, config.intermediate_size));
  if (family.refine_layers != nullptr) RETURN_IF_ERROR(family.refine_layers(json, config));
  ASSIGN_OR_RETURN(config.bos_token_ids, token_ids(json, "bos_token_id", config.vocab_size));
  ASSIGN_OR_RETURN(config.eos_token_ids, token_ids(json, "eos_token_id", config.vocab_size));
  ASSIGN_OR_RETURN(const double reach, read_ropes(json, family, config));
  return set_context(reach, max_context_override, config);
}

}  // namespace

namespace {

// Takes the member at this path away; its names may have dots in them. Null: there is none.
std::optional<Json> take(Json& json, std::string_view path) {
  if (!json.is_object()) return std::nullopt;
  if (const auto whole = json.find(std::string(path)); whole != json.end()) {
    std::optional<Json> value = *whole;
    json.erase(whole);
    return value;
  }
  for (size_t dot = path.find('.'); dot != path.npos; dot = path.find('.', dot + 1)) {
    const auto inner = json.find(std::string(path.substr(0, dot)));
    if (inner == json.end()) continue;
    if (auto value = take(*inner, path.substr(dot + 1)); value.has_value()) return value;
  }
  return std::nullopt;
}

// The path without a text part's object.
std::string within_text(const std::string& path) {
  for (const std::string_view object : kTextObjects) {
    if (path.starts_with(fmt::format("{}.", object))) return path.substr(object.size() + 1);
  }
  return path;
}

void fill_missing(const Json& defaults, Json& json) {
  for (const auto& [key, value] : defaults.items()) {
    if (Json& own = json[key]; own.is_null()) own = value;
  }
}

}  // namespace

absl::StatusOr<Json> ignore_keys(Json& json, const std::vector<std::string>& keys) {
  Json ignored = Json::object();
  for (const std::string& key : keys) {
    std::optional<Json> value = take(json, key);
    for (const std::string_view object : kTextObjects) {
      if (value.has_value() || !json.is_object()) break;
      const auto text = json.find(std::string(object));
      if (text != json.end()) value = take(*text, key);
    }
    if (!value.has_value()) {
      return invalid_argument("--ignore-config {}: the config has no such key", printable(key));
    }
    ignored[within_text(key)] = *std::move(value);
  }
  return ignored;
}

absl::StatusOr<Config> parse_config(const Json& json, const ConfigSource& source,
                                    std::string_view architecture, const Family& family,
                                    int64_t max_context_override) {
  const auto read = [&]() -> absl::StatusOr<Config> {
    if (!json.is_object()) return invalid_argument("must be an object, found {}", describe(json));
    Config config;
    config.architecture = architecture;
    Json ours = json;
    RETURN_IF_ERROR(use_our_names(ours, family));
    ASSIGN_OR_RETURN(config.scheme, read_quantization(ours));
    RETURN_IF_ERROR(check_ignored_sizes(source.ignored, ours, family));
    fill_missing(source.defaults, ours);
    if (family.defaults != nullptr) fill_missing(Json::parse(family.defaults), ours);
    if (family.check != nullptr) RETURN_IF_ERROR(family.check(ours));
    RETURN_IF_ERROR(check_keys(ours, source, family));
    RETURN_IF_ERROR(read_all(ours, family, max_context_override, config));
    return config;
  };
  absl::StatusOr<Config> config = read();
  if (config.ok()) return config;
  return invalid_argument("{}: {}", source.file,
                          with_published_name(json, family, message_of(config.status())));
}

}  // namespace lockstep

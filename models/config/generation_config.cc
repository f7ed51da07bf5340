// SPDX-License-Identifier: Apache-2.0
// Reads generation_config.json, field by field.
#include "models/config/generation_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/system/file.h"
#include "proto/sampling_ranges.h"

namespace lockstep {
namespace {

constexpr int64_t kMaxBytes = 1 << 20;
constexpr int64_t kMaxTokenId = (1 << 24) - 1;

bool given(const Json& json, const char* key) { return json.contains(key) && !json[key].is_null(); }

absl::Status read_float(const Json& json, const char* key, std::optional<float>& out) {
  if (!given(json, key)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const double value, get_double(json, key));
  const SamplingRange& range = sampling_range(key);
  if (value < range.default_min || value > range.default_max) {
    return invalid_argument("{}: must be a number from {} to {}, found {}", key, range.default_min,
                            range.default_max, value);
  }
  out = static_cast<float>(value);
  return absl::OkStatus();
}

constexpr int64_t kMaxCount = 1 << 30;  // Requests have such counts as 32-bit integers.

absl::Status read_count(const Json& json, const char* key, int64_t low,
                        std::optional<int64_t>& out) {
  if (!given(json, key)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t value, get_int(json, key));
  if (value < low || value > kMaxCount) {
    return invalid_argument("{}: must be {} to {}, found {}", key, low, kMaxCount, value);
  }
  out = value;
  return absl::OkStatus();
}

absl::Status read_ids(const Json& json, const char* key, std::vector<int64_t>& out) {
  if (!given(json, key)) return absl::OkStatus();
  const Json& found = json[key];
  for (const Json& id : found.is_array() ? found : Json::array({found})) {
    if (!id.is_number_integer() || id < 0 || id > kMaxTokenId) {
      return invalid_argument("{}: must be a token id or a list of them, found {}", key,
                              describe(id));
    }
    out.push_back(id.get<int64_t>());
  }
  return absl::OkStatus();
}

absl::Status read_sampling(const Json& json, GenerationConfig& out) {
  RETURN_IF_ERROR(read_float(json, "temperature", out.temperature));
  const SamplingRange& top_k = sampling_range("top_k");
  RETURN_IF_ERROR(read_count(json, "top_k", static_cast<int64_t>(top_k.default_min), out.top_k));
  RETURN_IF_ERROR(read_float(json, "top_p", out.top_p));
  RETURN_IF_ERROR(read_float(json, "min_p", out.min_p));
  RETURN_IF_ERROR(read_float(json, "repetition_penalty", out.repetition_penalty));
  RETURN_IF_ERROR(read_float(json, "presence_penalty", out.presence_penalty));
  RETURN_IF_ERROR(read_float(json, "frequency_penalty", out.frequency_penalty));
  if (out.top_k == -1) out.top_k = 0;  // Files have -1 or 0 for "all".
  return absl::OkStatus();
}

absl::Status read_all(const Json& json, GenerationConfig& out) {
  if (!json.is_object()) return invalid_argument("must be an object, found {}", describe(json));
  RETURN_IF_ERROR(read_sampling(json, out));
  RETURN_IF_ERROR(read_count(json, "max_new_tokens", 1, out.max_new_tokens));
  RETURN_IF_ERROR(read_ids(json, "bos_token_id", out.bos_token_ids));
  RETURN_IF_ERROR(read_ids(json, "eos_token_id", out.eos_token_ids));
  ASSIGN_OR_RETURN(const bool sample, get_bool(json, "do_sample", true));
  if (!sample) out.temperature = 0;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GenerationConfig> read_generation_config(const std::filesystem::path& folder) {
  GenerationConfig out;
  const std::filesystem::path path = folder / "generation_config.json";
  if (std::error_code ignored; !std::filesystem::exists(path, ignored)) return out;
  ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxBytes));
  ASSIGN_OR_RETURN(const Json json, parse_json(text, path.string()));
  const absl::Status status = read_all(json, out);
  if (!status.ok()) return invalid_argument("{}: {}", path.string(), message_of(status));
  return out;
}

absl::Status add_sampling_defaults(const std::string& json, GenerationConfig* config) {
  ASSIGN_OR_RETURN(const Json defaults, parse_json(json, "the text"));
  if (!defaults.is_object()) {
    return invalid_argument("must be a JSON object, found {}", describe(defaults));
  }
  for (const auto& [key, value] : defaults.items()) {
    if (std::ranges::find(kSamplingRanges, key, &SamplingRange::field) !=
        std::end(kSamplingRanges)) {
      continue;
    }
    std::vector<std::string_view> keys;
    for (const SamplingRange& range : kSamplingRanges) keys.push_back(range.field);
    return invalid_argument("{}: must be one of {}", printable(key), fmt::join(keys, ", "));
  }
  return read_sampling(defaults, *config);
}

}  // namespace lockstep

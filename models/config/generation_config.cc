// SPDX-License-Identifier: Apache-2.0
// Reads generation_config.json, field by field with its range.
#include "models/config/generation_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/system/file.h"

namespace lockstep {
namespace {

// Requests may set these, too.
constexpr std::string_view kSamplingKeys[] = {
    "temperature",      "top_k", "top_p", "min_p", "repetition_penalty", "presence_penalty",
    "frequency_penalty"};

constexpr int64_t kMostBytes = 1 << 20;
constexpr int64_t kMostTokenId = (1 << 24) - 1;

bool given(const Json& json, const char* key) { return json.contains(key) && !json[key].is_null(); }

absl::Status read_float(const Json& json, const char* key, double low, double high,
                        std::optional<float>& out) {
  if (!given(json, key)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const double value, get_double(json, key));
  if (value < low || value > high) {
    return invalid_argument("{}: must be a number from {} to {}, found {}", key, low, high, value);
  }
  out = static_cast<float>(value);
  return absl::OkStatus();
}

constexpr int64_t kMostCount = 1 << 30;  // Requests have them as 32-bit integers.

absl::Status read_count(const Json& json, const char* key, int64_t low,
                        std::optional<int64_t>& out) {
  if (!given(json, key)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t value, get_int(json, key));
  if (value < low || value > kMostCount) {
    return invalid_argument("{}: must be {} to {}, found {}", key, low, kMostCount, value);
  }
  out = value;
  return absl::OkStatus();
}

absl::Status read_ids(const Json& json, const char* key, std::vector<int64_t>& out) {
  if (!given(json, key)) return absl::OkStatus();
  const Json& found = json[key];
  for (const Json& id : found.is_array() ? found : Json::array({found})) {
    if (!id.is_number_integer() || id < 0 || id > kMostTokenId) {
      return invalid_argument("{}: must be a token id or a list of them, found {}", key,
                              describe(id));
    }
    out.push_back(id.get<int64_t>());
  }
  return absl::OkStatus();
}

absl::Status read_sampling(const Json& json, GenerationConfig& out) {
  RETURN_IF_ERROR(read_float(json, "temperature", 0, 1e4, out.temperature));
  RETURN_IF_ERROR(read_count(json, "top_k", -1, out.top_k));
  RETURN_IF_ERROR(read_float(json, "top_p", 0, 1, out.top_p));
  RETURN_IF_ERROR(read_float(json, "min_p", 0, 1, out.min_p));
  RETURN_IF_ERROR(read_float(json, "repetition_penalty", 1e-3, 1e3, out.repetition_penalty));
  RETURN_IF_ERROR(read_float(json, "presence_penalty", -2, 2, out.presence_penalty));
  RETURN_IF_ERROR(read_float(json, "frequency_penalty", -2, 2, out.frequency_penalty));
  if (out.top_k == -1) out.top_k = 0;  // Both are used for "all".
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
  ASSIGN_OR_RETURN(const std::string text, read_file(path, kMostBytes));
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
    if (std::ranges::find(kSamplingKeys, key) != std::end(kSamplingKeys)) continue;
    return invalid_argument("{}: must be one of {}", printable(key),
                            fmt::join(kSamplingKeys, ", "));
  }
  return read_sampling(defaults, *config);
}

}  // namespace lockstep

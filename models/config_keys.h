// SPDX-License-Identifier: Apache-2.0
// The keys of config.json: how they are read, which are known, which decide nothing, and those that
// a family publishes under another name. For config.cc, its parts, and what families refine.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "models/config.h"

namespace lockstep {

inline constexpr int64_t kMostColumns = 1 << 20;  // Of any value.

// An integer from 1 to `most`; no fallback: the key has to be there.
absl::StatusOr<int64_t> get_count(const Json& json, std::string_view key, int64_t most,
                                  std::optional<int64_t> fallback = std::nullopt);

// Whether every family reads it.
bool is_known_key(std::string_view key);

// Whether it is one of Family::keys.
bool reads_key(const Family& family, std::string_view key);

// Every key that the family reads, in our names.
std::vector<std::string_view> read_keys(const Family& family);

// The members that are neither read by the family nor harmless by a rule (models/key_rules.h). An
// error names a key whose value a rule refuses.
absl::StatusOr<Json> unknown_keys(const Json& json, const Family& family);

// One line that names them all, with the flags that ignore them; `inside` is the path to `unknown`,
// "text_config." or "". Ok where there are none.
struct UnknownKeys {
  std::string inside;
  Json keys;
};
absl::Status refuse_unknown(std::span<const UnknownKeys> unknown);

// An error where a key of these is there, not null, and has another value.
struct OnlyValue {
  const char* key;
  Json value;
};
absl::Status check_only(const Json& json, std::span<const OnlyValue> only);

// Gives keys our names: those of Family::names, and those that any family may have. Where both are
// there, they must say the same.
absl::Status use_our_names(Json& json, const Family& family);

// A message about the key `ours: ...` with the name that the file has: json as it was published.
std::string with_published_name(const Json& json, const Family& family, std::string message);

}  // namespace lockstep

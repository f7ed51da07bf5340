// SPDX-License-Identifier: Apache-2.0
// JSON from untrusted sources: depth and number of values are bounded, duplicate keys are refused,
// UTF-8 is strict, errors are a Status that names the text and the byte.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace lockstep {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;  // Objects keep the order of their keys.

struct JsonLimits {
  int depth = 64;                     // Nesting of objects and arrays; "{}" has depth 1.
  int64_t values = 10'000'000;        // The max number of values and keys: bounds time and memory.
  bool reject_duplicate_keys = true;  // Else the last one wins.
  std::function<void()> alive = {};   // Called every few thousand values, to report progress.
};

// `what` names the text in errors, e.g. its path. The byte in an error is the parser's position,
// which may be a little after the mistake.
absl::StatusOr<Json> parse_json(std::string_view text, std::string_view what,
                                const JsonLimits& limits = {});
absl::StatusOr<OrderedJson> parse_ordered_json(std::string_view text, std::string_view what,
                                               const JsonLimits& limits = {});

// The JSON in one line. Bytes that are not UTF-8, e.g. in a folder's name, are replaced.
std::string write_json(const OrderedJson& json);

// Typed members of an object. A missing or null member gives the fallback, or an error if there is
// no fallback. A member of another type is always an error, which names the key, what it must be
// and what was found; the caller puts the file's name before it.
absl::StatusOr<int64_t> get_int(const Json& object, std::string_view key,
                                std::optional<int64_t> fallback = std::nullopt);
absl::StatusOr<bool> get_bool(const Json& object, std::string_view key,
                              std::optional<bool> fallback = std::nullopt);
// Accepts integers too. The result is finite: JSON has no other numbers, and 1e999 does not parse.
absl::StatusOr<double> get_double(const Json& object, std::string_view key,
                                  std::optional<double> fallback = std::nullopt);
absl::StatusOr<std::string> get_string(const Json& object, std::string_view key,
                                       std::optional<std::string> fallback = std::nullopt);

// The value as messages show it: "an integer (3)", "a string (\"abc\")", "null", "an object".
std::string describe(const Json& value);

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// JSON from people we do not trust: bounded in depth and in number of values, duplicate keys
// refused, strict UTF-8, errors as Status that name the text and the byte.
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
  int depth = 64;                     // Objects and arrays within each other; "{}" has depth 1.
  int64_t values = 10'000'000;        // Values and keys in all: the budget of time and memory.
  bool reject_duplicate_keys = true;  // Else the last one wins.
  std::function<void()> alive = {};   // Called every few thousand values: a sign of life.
};

// `what` names the text in errors, e.g. its path. The byte is the parser's place, which may be a
// little past the culprit.
absl::StatusOr<Json> parse_json(std::string_view text, std::string_view what,
                                const JsonLimits& limits = {});
absl::StatusOr<OrderedJson> parse_ordered_json(std::string_view text, std::string_view what,
                                               const JsonLimits& limits = {});

// The JSON in one line. Text that is not UTF-8, such as a folder's name, is replaced in it.
std::string write_json(const OrderedJson& json);

// Members of an object by type. Without a fallback a missing or null member is an error; with one
// it is the fallback. A member of another type is always an error, which names the key, what was
// wanted and what was found; the caller puts the file's name before it.
absl::StatusOr<int64_t> get_int(const Json& object, std::string_view key,
                                std::optional<int64_t> fallback = std::nullopt);
absl::StatusOr<bool> get_bool(const Json& object, std::string_view key,
                              std::optional<bool> fallback = std::nullopt);
// Integers count as numbers too. Finite: JSON has no other and 1e999 does not parse.
absl::StatusOr<double> get_double(const Json& object, std::string_view key,
                                  std::optional<double> fallback = std::nullopt);
absl::StatusOr<std::string> get_string(const Json& object, std::string_view key,
                                       std::optional<std::string> fallback = std::nullopt);

// "an integer (3)", "a string (\"abc\")", "null", "an object": a value as messages name it.
std::string describe(const Json& value);

}  // namespace lockstep

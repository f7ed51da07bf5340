// SPDX-License-Identifier: Apache-2.0
#include "models/config/ignored_keys.h"

#include <optional>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "models/config/wrappers.h"

namespace lockstep {
namespace {

// Removes and returns the member at this path; its names may contain dots. nullopt: there is none.
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

// The path without "text_config." or another name of kTextObjects at its beginning.
std::string within_text(const std::string& path) {
  for (const std::string_view object : kTextObjects) {
    if (path.starts_with(fmt::format("{}.", object))) return path.substr(object.size() + 1);
  }
  return path;
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

}  // namespace lockstep

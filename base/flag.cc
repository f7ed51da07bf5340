// SPDX-License-Identifier: Apache-2.0
#include "base/flag.h"

#include <fmt/format.h>

#include <type_traits>

#include "base/check.h"

namespace lockstep {
namespace {

// "2GiB": the bytes in the largest unit that divides them.
std::string size_text(int64_t bytes) {
  constexpr const char* kUnits[] = {"", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{}{}", bytes, kUnits[unit]);
}

std::string text_of_value(const FlagValues&, const std::string& value) { return value; }
std::string text_of_value(const FlagValues&, bool value) { return value ? "true" : "false"; }

template <typename T>
requires std::is_arithmetic_v<T> std::string text_of_value(const FlagValues& values, T value) {
  if (value == 0 && !values.words.empty()) return values.words[0];
  if constexpr (std::is_same_v<T, int64_t>) {
    return values.is_size ? size_text(value) : fmt::format("{}", value / values.unit);
  }
  return fmt::format("{}", value);
}

template <typename T>
std::string text_of_value(const FlagValues& values, const std::optional<T>& value) {
  return value.has_value() ? text_of_value(values, *value) : "";
}

template <typename T>
std::string text_of_value(const FlagValues& values, const std::vector<T>& list) {
  std::string text;
  for (const T& value : list) text += (text.empty() ? "" : ",") + text_of_value(values, value);
  return text;
}

}  // namespace

std::string text_of(const Flag& flag) {
  const auto text = [&](const auto& variable) -> std::string {
    if constexpr (std::is_pointer_v<std::decay_t<decltype(variable)>>) {
      return text_of_value(flag.values, *variable);
    }
    return "";
  };
  return std::visit(text, flag.variable);
}

std::vector<Flag> join(std::vector<Flag> first, const std::vector<Flag>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

std::vector<std::string> arguments_of(const std::vector<Flag>& flags,
                                      const std::vector<Flag>& defaults) {
  LOCKSTEP_CHECK(flags.size() == defaults.size());
  std::vector<std::string> arguments;
  for (size_t i = 0; i < flags.size(); ++i) {
    std::string text = text_of(flags[i]);
    if (text == text_of(defaults[i])) continue;
    arguments.push_back(flags[i].name);
    if (!std::holds_alternative<bool*>(flags[i].variable)) arguments.push_back(std::move(text));
  }
  return arguments;
}

}  // namespace lockstep

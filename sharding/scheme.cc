// SPDX-License-Identifier: Apache-2.0
#include "sharding/scheme.h"

#include <fmt/format.h>

namespace lockstep {
namespace {

constexpr Scheme kSchemes[] = {
    {.name = "q8", .linear = DType::kQ8},
    {.name = "q4", .linear = DType::kQ4},
    {.name = "q4m", .linear = DType::kQ4M},
    {.name = "q8c", .linear = DType::kQ8C},
};

// Schemes that the measurements in docs/quantization.md did not justify, and their replacements.
struct Removed {
  std::string_view name;
  std::string_view instead;
};
constexpr Removed kRemoved[] = {
    {"q8g128", "q8"}, {"q4a16", "q4"},   {"q4g64", "q4"},
    {"q4g128", "q4"}, {"q4mg64", "q4m"}, {"q4mg128", "q4m"},
};

}  // namespace

DType Scheme::kind_of(program::Role role) const {
  switch (role) {
    case program::LINEAR_WEIGHT:
      return linear;
    case program::HEAD_WEIGHT:
      return head;
    case program::EMBEDDING:
      return embedding;
    default:
      return DType::kF32;
  }
}

std::span<const Scheme> schemes() { return kSchemes; }

const Scheme* find_scheme(std::string_view name) {
  for (const Scheme& scheme : kSchemes) {
    if (scheme.name == name) return &scheme;
  }
  return nullptr;
}

std::string scheme_names(std::string_view separator) {
  std::string names;
  for (const Scheme& scheme : kSchemes) {
    if (!names.empty()) names += separator;
    names += scheme.name;
  }
  return names;
}

std::string no_such_scheme(std::string_view name) {
  for (const Removed& removed : kRemoved) {
    if (removed.name == name)
      return fmt::format("that scheme was removed: use {}", removed.instead);
  }
  return "must be one of " + scheme_names();
}

}  // namespace lockstep

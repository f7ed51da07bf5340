// SPDX-License-Identifier: Apache-2.0
#include "sharding/scheme.h"

namespace lockstep {
namespace {

constexpr Scheme kSchemes[] = {
    {.name = "q8", .linear = DType::kQ8},
    {.name = "q4", .linear = DType::kQ4},
    {.name = "q4a16", .linear = DType::kQ4, .input = DType::kBF16},
    {.name = "q8c", .linear = DType::kQ8C},
    {.name = "q8g128", .linear = DType::kQ8G128},
    {.name = "q4g64", .linear = DType::kQ4G64},
    {.name = "q4g128", .linear = DType::kQ4G128},
    {.name = "q4m", .linear = DType::kQ4M},
    {.name = "q4mg64", .linear = DType::kQ4MG64},
    {.name = "q4mg128", .linear = DType::kQ4MG128},
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

std::string scheme_names() {
  std::string names;
  for (const Scheme& scheme : kSchemes) {
    if (!names.empty()) names += ", ";
    names += scheme.name;
  }
  return names;
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "base/op.h"

#include <array>

namespace lockstep {
namespace {

constexpr std::array<std::string_view, kOpCount> kNames = {
    "none",        "embed",          "linear",     "rms_norm",   "head_norm", "rope_table", "rope",
    "attention",   "silu",           "mul",        "add",        "gated",     "add_norm",   "cast",
    "select_rows", "top_candidates", "all_reduce", "all_gather", "columns"};

}  // namespace

std::string_view op_name(Op op) {
  const auto index = static_cast<size_t>(op);
  return index < kNames.size() ? kNames[index] : "?";
}

std::optional<Op> find_op(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Op>(i);
  }
  return std::nullopt;
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "models/summary.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace lockstep {
namespace {

RotarySummary summarize(const program::RopeTableAttrs& table) {
  const auto sets = table.lengths_size() + 1;
  std::vector<float> rotating(table.inv_freq().begin(),
                              table.inv_freq().begin() + table.inv_freq_size() / sets);
  std::erase(rotating, 0.0f);
  if (rotating.empty()) return {};
  return {.count = std::ssize(rotating),
          .first = rotating.front(),
          .last = rotating.back(),
          .factor = table.factor()};
}

}  // namespace

Summary summarize(const Graph& graph) {
  Summary summary;
  for (const Parameter& parameter : graph.parameters()) {
    for (const program::Piece& piece : parameter.pieces) {
      summary.tensors[piece.source()].assign(piece.source_shape().begin(),
                                             piece.source_shape().end());
    }
  }
  for (const auto& [name, shape] : summary.tensors) {
    summary.parameters +=
        std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  }
  for (const Node& node : graph.nodes()) {
    if (node.op == Op::kRopeTable)
      summary.rotary.push_back(summarize(node.attributes.rope_table()));
    if (node.op == Op::kAttention) {
      const program::AttentionAttrs& attention = node.attributes.attention();
      summary.windows[attention.state()] = std::max(attention.window(), attention.chunk());
    }
  }
  std::ranges::sort(summary.rotary);
  // Clang 14 does not compile std::ranges::unique of GCC 12's library.
  const auto repeated = std::unique(summary.rotary.begin(), summary.rotary.end());
  summary.rotary.erase(repeated, summary.rotary.end());
  return summary;
}

}  // namespace lockstep

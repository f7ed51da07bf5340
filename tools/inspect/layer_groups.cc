// SPDX-License-Identifier: Apache-2.0
// A layer's number is the first part of a name that is a number: "model.layers.3.mlp.up_proj".
#include "tools/inspect/layer_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

namespace lockstep {
namespace {

// -1: none.
int layer_of(std::string_view name) {
  while (!name.empty()) {
    const std::string_view part = name.substr(0, name.find_first_of(".+"));
    int number = -1;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    if (error == std::errc() && end == part.data() + part.size() && number >= 0) return number;
    name.remove_prefix(std::min(part.size() + 1, name.size()));
  }
  return -1;
}

// A fused sum and norm (add_norm) belongs to the layer of the norm's weight.
int layer_of(const program::Program& program, const program::Instruction& instruction) {
  int layer = -1;
  for (const int output : instruction.outputs()) {
    layer = std::max(layer, layer_of(program.values(output).name()));
  }
  for (const program::Operand& operand : instruction.inputs()) {
    if (!operand.has_weight()) continue;
    layer = std::max(layer, layer_of(program.weights(operand.weight()).name()));
  }
  return layer;
}

}  // namespace

std::vector<LayerGroup> layer_groups(const program::Program& program) {
  std::vector<int> layers;
  int last = -1;  // The last instruction of any layer.
  for (int i = 0; i < program.instructions_size(); ++i) {
    layers.push_back(layer_of(program, program.instructions(i)));
    if (layers.back() >= 0) last = i;
  }
  std::vector<LayerGroup> groups;
  int current = -2;
  for (int i = 0; i < program.instructions_size(); ++i) {
    const int layer = i > last ? -1 : layers[i] < 0 && current >= 0 ? current : layers[i];
    if (layer != current) {
      const std::string name = layer >= 0 ? fmt::format("layer {}", layer)
                               : i > last ? "after the layers"
                                          : "before the layers";
      groups.push_back({.name = name, .first = i, .end = i});
      current = layer;
    }
    groups.back().end = i + 1;
  }
  return groups;
}

}  // namespace lockstep

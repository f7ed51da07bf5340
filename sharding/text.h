// SPDX-License-Identifier: Apache-2.0
// Graphs as text for people: lines, and a picture in Graphviz' language.
#pragma once

#include <string>

#include "models/graph/graph.h"

namespace lockstep {

// One line per node: "%12 = linear(%9, model.layers.0.mlp.up_proj.weight bf16 [124, 64]) : f32 [T,
// ffn 124]". T: tokens of a step, O: rows whose logits are needed.
std::string graph_text(const Graph& graph);
std::string node_text(const Graph& graph, const Node& node);

std::string graph_dot(const Graph& graph);

}  // namespace lockstep

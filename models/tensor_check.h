// SPDX-License-Identifier: Apache-2.0
// Compares a graph with a checkpoint's headers: tensors that it needs and are missing, and tensors
// that it does not read.
#pragma once

#include <string>

#include "checkpoint/checkpoint.h"
#include "models/graph/graph.h"

namespace lockstep {

// Checks that all sources of the graph's weights exist, in their shape and a readable type.
// kFailedPrecondition: how many tensors are missing, the first three, and the one nearest to the
// first, with its shape; else the first of another shape or type.
absl::Status check_tensors(const Checkpoint& checkpoint, const Graph& graph);

// One line about tensors in the graph's layers, or next to its other tensors, that the graph does
// not read: config.json may belong to other weights. "" if there are none. Tensors that no model
// reads are left out: rotary tables, masks, draft layers, an indexer, towers for images and sound.
std::string unread_tensors(const Checkpoint& checkpoint, const Graph& graph);

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// Finds the tensors that a graph needs and a checkpoint's headers lack, and the tensors in the
// headers that the graph does not read.
#pragma once

#include <string>

#include "checkpoint/checkpoint.h"
#include "models/graph/graph.h"

namespace lockstep {

// Checks that all sources of the graph's weights exist, in their shape and a readable type.
// Else kFailedPrecondition names: the number of missing tensors, the first three, and the tensor
// whose name is nearest to the first, with its shape; or, if none is missing, the first tensor of a
// wrong shape or type.
absl::Status check_tensors(const Checkpoint& checkpoint, const Graph& graph);

// One line about tensors in the graph's layers, or next to its other tensors, that the graph does
// not read: config.json may belong to other weights. "" if there are none. Tensors that no model
// reads are left out: rotary tables, masks, draft layers, an indexer, towers for images and sound.
std::string unread_tensors(const Checkpoint& checkpoint, const Graph& graph);

}  // namespace lockstep

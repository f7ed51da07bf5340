// SPDX-License-Identifier: Apache-2.0
// A graph beside the headers of a checkpoint: what it asks for and is not there, and what is there
// and not asked for.
#pragma once

#include <string>

#include "checkpoint/checkpoint.h"
#include "models/graph/graph.h"

namespace lockstep {

// Whether all that the graph's weights are read from is there, in the shape and in a type that can
// be read. kFailedPrecondition: how many tensors are missing, the first three, and the one that is
// nearest to the first, with its shape; else the first of another shape or type.
absl::Status check_tensors(const Checkpoint& checkpoint, const Graph& graph);

// One line about tensors in the graph's layers, or beside its other tensors, that it does not read:
// a sign of another config.json. "" where there are none. Not meant is what the maths does not
// read either: rotary tables, masks, draft layers, an indexer, towers of images and sound.
std::string unread_tensors(const Checkpoint& checkpoint, const Graph& graph);

}  // namespace lockstep

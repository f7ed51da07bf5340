// SPDX-License-Identifier: Apache-2.0
// A checkpoint may spell a tensor otherwise than a model's family does: with another prefix, with
// another word in the middle, or as a stack of what is single elsewhere. One table
// (tensor_names.cc) has the alternatives of all families.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "models/config.h"
#include "models/graph/graph.h"

namespace lockstep {

// Lets the graph's weights be read from tensors that the checkpoint has. A name that is there
// stays; for one that is not, its alternatives are looked for, for each weight by itself: the
// experts of one layer may be single and those of the next a stack. Only names decide, never a
// shape, but in a family whose stacks have two layouts (ExpertConfig::either_layout). What is there
// under no name keeps its own (check_tensors names it).
//
// A tied model's head is the embedding, unless the checkpoint has a head of its own: then that one
// is used; where it has the head alone, it is the embedding, too. transformers 5 does both
// (PreTrainedModel.tie_weights). Where config.json says both (Config::tie_disputed), a head that is
// missing is the embedding.
//
// Returns what a user should know of it, one line each.
std::vector<std::string> use_names_of(const Checkpoint& checkpoint, const Config& config,
                                      Graph& graph);

}  // namespace lockstep

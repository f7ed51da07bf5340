// SPDX-License-Identifier: Apache-2.0
// A checkpoint may spell a tensor differently than a model's family: with another prefix, with
// another word in the middle, or as a stack of tensors that are single elsewhere. One table
// (tensor_names.cc) has the alternatives of all families.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "models/config.h"
#include "models/graph/graph.h"

namespace lockstep {

// Changes the sources of the graph's weights to tensors that the checkpoint has. An existing name
// is kept; for a missing one its alternatives are searched, for each weight separately: the experts
// of one layer may be single and those of the next a stack. Only names decide, never a shape,
// except in a family whose stacks have two layouts (ExpertConfig::either_layout). A name without
// any match is kept (check_tensors reports it).
//
// A tied model's head is the embedding, unless the checkpoint has a head, which is then used. If
// the checkpoint has only the head, the head is also the embedding. transformers 5 does the same
// (PreTrainedModel.tie_weights). If config.json states both tied and not tied
// (Config::tie_disputed), a missing head is the embedding.
//
// Returns lines that the user should see.
std::vector<std::string> use_names_of(const Checkpoint& checkpoint, const Config& config,
                                      Graph& graph);

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// Finds the model's values in a reference (the results of transformers), by names that both use.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "models/graph/graph.h"
#include "tools/verify/reference.h"

namespace lockstep {

// The model's value, as columns of the reference's tensors: one run, or several if the reference
// has one matrix for several linears, or another order of heads.
struct Counterpart {
  struct Run {
    const TensorInfo* tensor = nullptr;
    int64_t begin = 0;  // Columns [begin, end) of the tensor.
    int64_t end = 0;
  };
  std::vector<Run> runs;
  std::string name;  // "model.layers.0.self_attn.o_proj (input)"
};

// Finds the counterpart of each of the model's values; the keys are the values' names. A value's
// counterpart is the first of these that the reference has:
//  - the output of the module of that name, unless a bias is added that the module does not have;
//  - the outputs of the modules whose weights' rows make the value;
//  - the output of the layer, if the value is the last that the layer makes;
//  - the input of a module that reads it; the logits.
std::map<std::string, Counterpart> find_counterparts(const Graph& model,
                                                     const Reference& reference);

}  // namespace lockstep

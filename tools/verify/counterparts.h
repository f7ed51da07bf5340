// SPDX-License-Identifier: Apache-2.0
// Which of a reference's matrices hold a value of the model: found by the names that both have.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "models/graph/graph.h"
#include "tools/verify/reference.h"

namespace lockstep {

// The model's value, as columns of the reference's: one run, or several where the reference keeps
// in one matrix what is several linears here, or heads in another order.
struct Counterpart {
  struct Run {
    const TensorInfo* tensor = nullptr;
    int64_t begin = 0;  // Columns [begin, end) of the tensor.
    int64_t end = 0;
  };
  std::vector<Run> runs;
  std::string name;  // "model.layers.0.self_attn.o_proj (input)"
};

// By the model's values' names: those that the reference has, in this order, as
//  - the output of the module of that name, unless a bias is added that the module does not have;
//  - the outputs of the modules whose weights' rows the value is made with;
//  - the output of the layer, if the value is the last that the layer makes;
//  - the input of a module that reads it; the logits.
std::map<std::string, Counterpart> find_counterparts(const Graph& model,
                                                     const Reference& reference);

}  // namespace lockstep

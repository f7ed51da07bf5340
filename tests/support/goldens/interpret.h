// SPDX-License-Identifier: Apache-2.0
// The naive meaning of graphs and programs: every operator by its formula, with sums in double, for
// any number of ranks in lockstep with simulated collectives. Compiled programs and kernels are
// compared with it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "models/graph/graph.h"
#include "proto/program.pb.h"

namespace lockstep::naive {

// A checkpoint's tensor in memory, widened to float32.
struct Tensor {
  std::vector<int64_t> shape;
  std::vector<float> data;
};
using Tensors = std::map<std::string, Tensor>;

struct Sequence {
  std::vector<int32_t> tokens;   // From position 0.
  std::vector<int64_t> outputs;  // The rows whose logits are requested.
  int64_t rope_length = 0;       // This field and the next two: see cluster.StepSequence.
  int64_t prefix_rows = 0;
  int64_t held_position = 0;
};

// The logits of every output over the whole vocabulary. `ranks` has one graph or program per rank,
// in rank order; a bug in one of them ends the process. Each program runs in its own arena, which
// is filled with NaN beforehand, so that a memory plan that loses a value is detected.
using Logits = std::vector<std::vector<float>>;
Logits interpret(std::span<const Graph> ranks, const Tensors& tensors, const Sequence& sequence);
Logits interpret(std::span<const program::Program> ranks, const Tensors& tensors,
                 const Sequence& sequence);

// Every value of a model's graph, by its name: [rows, columns].
std::map<std::string, Tensor> interpret_values(const Graph& model, const Tensors& tensors,
                                               const Sequence& sequence);

}  // namespace lockstep::naive

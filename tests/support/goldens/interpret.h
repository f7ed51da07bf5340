// SPDX-License-Identifier: Apache-2.0
// The naive meaning of graphs and programs: every operator as its formula says, sums in double, any
// number of ranks in lockstep with simulated collectives. What compiled programs and kernels are
// compared with.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "models/graph/graph.h"
#include "proto/program.pb.h"

namespace lockstep::naive {

// A checkpoint in memory, widened to float32.
struct Tensor {
  std::vector<int64_t> shape;
  std::vector<float> data;
};
using Tensors = std::map<std::string, Tensor>;

struct Sequence {
  std::vector<int32_t> tokens;   // From position 0 on.
  std::vector<int64_t> outputs;  // Rows whose logits are wanted.
  int64_t rope_length = 0;       // These as of cluster.StepSequence.
  int64_t prefix_rows = 0;
  int64_t held_position = 0;
};

// Logits of every output over the whole vocabulary. One graph or program a rank, in rank order; a
// bug in them ends the test program. Programs run in an arena of their own that is filled with NaN
// before, so that a memory plan which loses a value shows.
using Logits = std::vector<std::vector<float>>;
Logits interpret(std::span<const Graph> ranks, const Tensors& tensors, const Sequence& sequence);
Logits interpret(std::span<const program::Program> ranks, const Tensors& tensors,
                 const Sequence& sequence);

// Every value of a model's graph, by its name: [rows, columns].
std::map<std::string, Tensor> interpret_values(const Graph& model, const Tensors& tensors,
                                               const Sequence& sequence);

}  // namespace lockstep::naive

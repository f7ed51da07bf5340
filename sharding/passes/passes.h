// SPDX-License-Identifier: Apache-2.0
// Every pass: a pure function from graph to graph in its own file. compile.cc lists them in order.
#pragma once

#include "models/graph/graph.h"
#include "sharding/compile_options.h"

namespace lockstep {

// --- On the model's graph, before the split.

// Removes nodes on which no effect depends.
Graph drop_dead(const Graph& graph, const CompileOptions& options);
// Sets each parameter's stored type: weight_dtype's result, or float32 for norms and biases.
Graph store_weights(const Graph& graph, const CompileOptions& options);
// Rounds each input of linears with bfloat16 weights to bfloat16, once per value; on GPUs also the
// inputs of linears with quantized weights.
Graph round_inputs(const Graph& graph, const CompileOptions& options);

// --- On a rank's graph, after the split.

// If only linears that round their rows read the result of an all_gather, rounds each part before
// it; on processors, which have such linears.
Graph round_parts(const Graph& graph, const CompileOptions& options);
// Rounds rows that experts with quantized weights would round again per route; on processors.
Graph round_routed(const Graph& graph, const CompileOptions& options);
// Joins linears of one input into one, whose columns are the outputs: q, k, v; gate, up. Not the
// head.
Graph fuse_linears(const Graph& graph, const CompileOptions& options);
// mul(map(gate), up) -> gated(gate, up).
Graph fuse_gated(const Graph& graph, const CompileOptions& options);
// On GPUs: gated over both halves of a linear whose weights are not float32, if nothing else reads
// them -> gated_linear.
Graph fuse_gated_linear(const Graph& graph, const CompileOptions& options);
// A sum read by an rms_norm -> add_norm, which gives both.
Graph fuse_add_norm(const Graph& graph, const CompileOptions& options);
// On GPUs: attention whose q and k are rotated by the same table, for it alone -> rope_attention.
Graph fuse_rope(const Graph& graph, const CompileOptions& options);
// On GPUs: a value that is only read by a cast is written rounded, by an operator that may round.
Graph fuse_casts(const Graph& graph, const CompileOptions& options);

}  // namespace lockstep

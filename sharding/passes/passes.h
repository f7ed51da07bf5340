// SPDX-License-Identifier: Apache-2.0
// Every pass: a pure function from graph to graph, in a file of its own. compile.cc lists them in
// order.
#pragma once

#include "models/graph/graph.h"
#include "sharding/compile_options.h"

namespace lockstep {

// --- On the model's graph, before the cut.

// Leaves out what no effect depends on.
Graph drop_dead(const Graph& graph, const CompileOptions& options);
// Gives every parameter the type that it is kept in: weight_dtype's, float32 for norms and biases.
Graph store_weights(const Graph& graph, const CompileOptions& options);
// Rounds the input of every linear that takes bfloat16 to it, each value once; on GPUs those of
// codes take it, too.
Graph round_inputs(const Graph& graph, const CompileOptions& options);

// --- On a rank's graph, after the cut.

// What linears that round their rows read of an all_gather is rounded before it, part by part; on
// processors, which have such linears.
Graph round_parts(const Graph& graph, const CompileOptions& options);
// Rows that experts over codes read once for each route are rounded before them; on processors.
Graph round_routed(const Graph& graph, const CompileOptions& options);
// Linears of one input become one, and their outputs views of its columns: q, k, v; gate, up. The
// head stays by itself.
Graph fuse_linears(const Graph& graph, const CompileOptions& options);
// mul(map(gate), up) -> gated(gate, up).
Graph fuse_gated(const Graph& graph, const CompileOptions& options);
// On GPUs: gated of both halves of a linear by other weights than float32, which nobody else reads
// -> gated_linear.
Graph fuse_gated_linear(const Graph& graph, const CompileOptions& options);
// A sum that goes into an rms_norm -> add_norm, which gives both.
Graph fuse_add_norm(const Graph& graph, const CompileOptions& options);
// On GPUs: attention of q and k that rope turned by one table for it alone -> rope_attention.
Graph fuse_rope(const Graph& graph, const CompileOptions& options);
// On GPUs: what is only read to be rounded is written rounded, by an operator that may round.
Graph fuse_casts(const Graph& graph, const CompileOptions& options);

}  // namespace lockstep

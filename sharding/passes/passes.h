// SPDX-License-Identifier: Apache-2.0
// Every pass: a pure function from graph to graph in its own file. compile.cc lists them in order.
#pragma once

#include "models/graph/graph.h"
#include "sharding/compile_options.h"

namespace lockstep {

// --- On the model's graph, before the split.

// Removes nodes on which no effect depends.
Graph drop_dead(const Graph& graph, const CompileOptions& options);
// Sets each parameter's stored type. Vectors, routers and position embeddings get float32. Other
// matrices get the result of weight_dtype, but only an embedding gets float16: others get float32
// instead.
Graph store_weights(const Graph& graph, const CompileOptions& options);
// Rounds each input of linears with bfloat16 weights to bfloat16, once per value; on GPUs also the
// inputs of linears with quantized weights.
Graph round_inputs(const Graph& graph, const CompileOptions& options);

// --- On a rank's graph, after the split.

// On processors: if an all_gather's result is read only by linears that would round its rows,
// rounds each rank's part before the all_gather.
Graph round_parts(const Graph& graph, const CompileOptions& options);
// On processors: rounds each row once for the experts' quantized linears, which would otherwise
// round it again for each route.
Graph round_routed(const Graph& graph, const CompileOptions& options);
// Joins linears with the same input and type of weights, all with or all without a bias, into one
// linear. Its columns are the outputs of the joined linears: q, k, v; gate, up. The head is never
// joined.
Graph fuse_linears(const Graph& graph, const CompileOptions& options);
// mul(map(gate), up) -> gated(gate, up).
Graph fuse_gated(const Graph& graph, const CompileOptions& options);
// On GPUs: gated over both halves of a linear whose weights are not float32 -> gated_linear, if
// nothing else reads the halves.
Graph fuse_gated_linear(const Graph& graph, const CompileOptions& options);
// A sum read by an rms_norm -> add_norm, which gives both.
Graph fuse_add_norm(const Graph& graph, const CompileOptions& options);
// On GPUs: attention whose q and k are rotated by the same table -> rope_attention, if nothing else
// reads the rotated q and k.
Graph fuse_rope(const Graph& graph, const CompileOptions& options);
// On GPUs: if a value is read only by a cast, and the operator that makes the value may round, the
// operator writes the value rounded.
Graph fuse_casts(const Graph& graph, const CompileOptions& options);

}  // namespace lockstep

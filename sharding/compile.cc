// SPDX-License-Identifier: Apache-2.0
// The whole way from a model to its programs, in order.
#include "sharding/compile.h"

#include <span>
#include <utility>

#include "base/status.h"
#include "proto/print.h"
#include "proto/validate/validate.h"
#include "sharding/check.h"
#include "sharding/layout/plan.h"
#include "sharding/layout/split.h"
#include "sharding/layout/value_parts.h"
#include "sharding/lowering/lower.h"
#include "sharding/lowering/plan_memory.h"
#include "sharding/passes/passes.h"
#include "sharding/text.h"

namespace lockstep {
namespace {

struct Pass {
  const char* name;
  Graph (*run)(const Graph& graph, const CompileOptions& options);
};

// The passes on the model's graph. They change no axis.
constexpr Pass kBeforeSplit[] = {
    {"drop_dead", drop_dead},
    {"store_weights", store_weights},
    {"round_inputs", round_inputs},
};

// The passes on each rank's graph: first those that round, then the fusions.
constexpr Pass kAfterSplit[] = {
    {"round_parts", round_parts},
    {"round_routed", round_routed},
    {"fuse_linears", fuse_linears},
    {"fuse_gated", fuse_gated},
    {"fuse_gated_linear", fuse_gated_linear},
    {"fuse_add_norm", fuse_add_norm},
    {"fuse_rope", fuse_rope},
    {"fuse_casts", fuse_casts},
};

absl::Status check_stage(const char* stage, const Graph& graph) {
  const absl::Status status = check_graph(graph);
  if (status.ok()) return status;
  return absl::InternalError(fmt::format("after {}: {}", stage, message_of(status)));
}

// Runs the passes. Checks each result, and gives it to options.trace if `traced`.
absl::StatusOr<Graph> run_passes(std::span<const Pass> passes, Graph graph,
                                 const CompileOptions& options, bool traced) {
  for (const Pass& pass : passes) {
    graph = pass.run(graph, options);
    if (traced && options.trace) options.trace(pass.name, graph_text(graph));
    RETURN_IF_ERROR(check_stage(pass.name, graph));
  }
  return graph;
}

absl::Status check_limits(const program::Limits& limits) {
  const auto check = [](const char* name, int64_t value, int64_t max) {
    if (value >= 1 && value <= max) return absl::OkStatus();
    return invalid_argument("limits.{}: must be 1 to {}, found {}", name, max, value);
  };
  RETURN_IF_ERROR(check("rows", limits.rows(), kMaxStepRows));
  RETURN_IF_ERROR(check("outputs", limits.outputs(), kMaxStepRows));
  RETURN_IF_ERROR(check("sequences", limits.sequences(), kMaxStepRows));
  RETURN_IF_ERROR(check("context", limits.context(), kMaxContext));
  if (fits_pages(limits.page_tokens())) return absl::OkStatus();
  return invalid_argument("limits.page_tokens: must be 16, 32 or 64, found {}",
                          limits.page_tokens());
}

// A Program's facts about the whole model.
LowerArgs model_sizes(const Graph& model) {
  LowerArgs args;
  for (const Node& node : model.nodes()) {
    const program::EmbedAttrs& embed = node.attributes.embed();
    if (node.op == Op::kEmbed && !embed.beside() && !embed.by_position()) {
      args.hidden = model.values()[node.outputs[0]].axis.columns();
    }
    if (node.op == Op::kTopCandidates) args.vocab = model.values()[node.inputs[0]].axis.columns();
  }
  return args;
}

}  // namespace

absl::StatusOr<std::vector<Graph>> compile_graphs(const Graph& graph,
                                                  const CompileOptions& options) {
  ASSIGN_OR_RETURN(const Plan plan, make_plan(graph, options));
  if (options.trace) options.trace("model", graph_text(graph));
  RETURN_IF_ERROR(check_stage("model", graph));
  ASSIGN_OR_RETURN(const Graph model, run_passes(kBeforeSplit, graph, options, true));
  std::vector<Graph> graphs;
  for (int rank = 0; rank < plan.ranks; ++rank) {
    const bool traced = rank == options.trace_rank;
    ASSIGN_OR_RETURN(Graph local, split(model, plan, rank));
    if (traced && options.trace) options.trace("split", graph_text(local));
    RETURN_IF_ERROR(check_stage("split", local));
    ASSIGN_OR_RETURN(local, run_passes(kAfterSplit, std::move(local), options, traced));
    graphs.push_back(std::move(local));
  }
  return graphs;
}

absl::StatusOr<std::vector<ValueParts>> value_parts(const Graph& graph,
                                                    const CompileOptions& options) {
  ASSIGN_OR_RETURN(const Plan plan, make_plan(graph, options));
  ASSIGN_OR_RETURN(const Graph model, run_passes(kBeforeSplit, graph, options, false));
  std::vector<ValueParts> parts(static_cast<size_t>(plan.ranks));
  for (int rank = 0; rank < plan.ranks; ++rank) {
    RETURN_IF_ERROR(split(model, plan, rank, &parts[static_cast<size_t>(rank)]).status());
  }
  return parts;
}

absl::StatusOr<std::vector<program::Program>> compile(const Graph& graph,
                                                      const CompileOptions& options) {
  RETURN_IF_ERROR(check_limits(options.limits));
  ASSIGN_OR_RETURN(const std::vector<Graph> graphs, compile_graphs(graph, options));
  LowerArgs args = model_sizes(graph);
  ASSIGN_OR_RETURN(args.numeric_class, group_class(options.workers));
  args.ranks = static_cast<int>(graphs.size());
  std::vector<program::Program> programs;
  for (args.rank = 0; args.rank < args.ranks; ++args.rank) {
    const Graph& local = graphs[args.rank];
    programs.push_back(lower(local, plan_memory(local, options.limits, args.rank), options, args));
    if (args.rank == options.trace_rank && options.trace) {
      options.trace("program", to_text(programs.back()));
    }
    const absl::Status status = validate(programs.back());
    if (!status.ok()) {
      return absl::InternalError(fmt::format("after lowering: {}", message_of(status)));
    }
  }
  return programs;
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// Small models from tests/data/configs, and options to compile them with.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/source_dir.h"
#include "models/models.h"
#include "sharding/compile.h"
#include "tests/support/goldens/random_tensors.h"

namespace lockstep {

inline constexpr const char* kModels[] = {
    "llama",      "mistral",     "qwen2",     "qwen3",    "baichuan",   "yarn",
    "dynamic",    "internlm2",   "phi3",      "granite",  "gemma2",     "gemma3",
    "smollm3",    "mixtral",     "qwen2_moe", "glm4",     "gpt_neox",   "falcon",
    "codegen",    "cohere2",     "olmo3",     "stablelm", "minimax_m2", "glm4_moe",
    "ministral3", "deepseek_v3", "rwkv4",     "rwkv6",    "rwkv7",      "granite4"};

// True if attention and MLP of a layer read the same input.
inline bool is_parallel(std::string_view name) {
  return name == "gpt_neox" || name == "falcon" || name == "codegen" || name == "cohere2" ||
         name == "stablelm";
}

// True if one norm covers the q of all heads, and another norm the k of all heads.
inline bool norms_all_heads(std::string_view name) {
  return name == "olmo3" || name == "minimax_m2";
}

inline Graph model_graph(const std::string& name) {
  const std::filesystem::path folder =
      std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "tests/data/configs" / name;
  const bool dynamic = name == "dynamic";  // Longer than its original 6 positions.
  absl::StatusOr<ModelDescription> model = describe_model(folder, {}, dynamic ? 12 : 0);
  LOCKSTEP_CHECK(model.ok());
  return std::move(model->graph);
}

inline CompileOptions options_for(int ranks, Strategy strategy, DType dtype = DType::kF32) {
  CompileOptions options{.workers = std::vector<WorkerFacts>(ranks), .strategy = strategy};
  options.limits.set_rows(16);
  options.limits.set_outputs(4);
  options.limits.set_sequences(4);
  options.limits.set_context(128);
  options.limits.set_page_tokens(16);
  options.weight_dtype = [dtype](const std::string&, program::Role) { return dtype; };
  return options;
}

inline int count_ops(const Graph& graph, Op op) {
  int found = 0;
  for (const Node& node : graph.nodes()) found += node.op == op ? 1 : 0;
  return found;
}

// The number of shared experts in all layers: experts that every token uses.
inline int shared_experts(const Graph& graph) {
  int found = 0;
  for (const Parameter& parameter : graph.parameters()) {
    const bool down = parameter.name.ends_with("down_proj.weight");
    found += down && parameter.name.find("mlp.shared_expert") != std::string::npos ? 1 : 0;
    found += parameter.name.ends_with("shared_mlp.output_linear.weight") ? 1 : 0;
  }
  return found;
}

// The number of values on the latent axis. They are gathered before their norm.
inline int low_ranks(const Graph& graph) {
  int found = 0;
  for (const Node& node : graph.nodes()) {
    const bool linear = node.op == Op::kLinear;
    found += linear && graph.values()[node.outputs[0]].axis.axis == Axis::kLatent ? 1 : 0;
  }
  return found;
}

// The number of operators that mix tokens; each has an MLP after or next to it.
inline int count_layers(const Graph& graph) {
  return count_ops(graph, Op::kAttention) + count_ops(graph, Op::kRecurrence) +
         count_ops(graph, Op::kWkv);
}

// The number of norms over several heads together.
inline int group_norms(const Graph& graph) {
  int found = 0;
  for (const Node& node : graph.nodes()) {
    if (node.op != Op::kHeadNorm) continue;
    const int64_t unit = graph.values()[node.outputs[0]].axis.unit;
    found += node.attributes.norm().head_dim() > unit ? 1 : 0;
  }
  return found;
}

}  // namespace lockstep

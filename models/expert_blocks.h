// SPDX-License-Identifier: Apache-2.0
// What families of experts share.
#pragma once

#include <string>

#include "models/blocks.h"
#include "models/config.h"
#include "models/graph.h"

namespace lockstep {

// Tensors by expert: "experts.*.gate_proj", with a star for its number.
struct ExpertNames {
  const char* gate;
  const char* up;
  const char* down;
};

// The sum over each token's experts of weight * down(activation(gate(x)) * up(x)).
Value gated_experts(Graph& graph, const Config& config, Value x, const Routes& routes,
                    const ExpertNames& names);

// The rows of routes: each down(activation(gate(x)) * up(x)), of stacks, experts.gate_up_proj
// [experts, 2 * size, hidden] and experts.down_proj; or, transposed, [experts, hidden, 2 * size].
Value stacked_experts(Graph& graph, const Config& config, Value x, const Routes& routes,
                      bool transposed = false);

// A gated MLP of `width` columns in `scope`.
Value scoped_mlp(Graph& graph, const Config& config, Value x, const char* scope, int64_t width);
// One that every token goes through.
Value shared_expert(Graph& graph, const Config& config, Value x, const char* scope);
// The same times the sigmoid of its own score, which
// `gate` gives.
Value gated_shared_expert(Graph& graph, const Config& config, Value x, const char* scope,
                          const char* gate);

// DeepSeek's MLP: experts of groups beside shared ones, in some layers a dense one. `routing` says
// how scores become weights; `bias` is what its choice adds to them, or none.
Value grouped_experts(Graph& graph, const Config& config, Value x, int layer, RouteSpec routing,
                      const std::string& bias = "");

// What the config says of the choice.
RouteSpec with_config(RouteSpec routing, const Config& config);

// How DeepSeek-V3 and its like choose: by a sigmoid of each score, within groups.
RouteSpec biased_routing(const Config& config);

// The same as of DeepSeek-V3 on: a sigmoid of each score, and a learned bias of the choice.
Value old_biased_experts(Graph& graph, const Config& config, Value x, int layer);

// Qwen's MLP: experts, with a shared one where the config has it, or in some layers a dense one.
Value old_qwen_experts(Graph& graph, const Config& config, Value x, int layer);

}  // namespace lockstep

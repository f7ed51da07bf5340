// SPDX-License-Identifier: Apache-2.0
// Granite 4: in most layers Mamba-2 in place of attention, and an MLP that every token goes
// through, beside experts where the model has any.
#include "base/status.h"
#include "models/blocks.h"
#include "models/config_keys.h"
#include "models/families/families.h"
#include "models/mamba_blocks.h"
#include "operators/limits.h"

namespace lockstep::families::granite4 {
namespace {

Value mixer(Graph& g, const Config& c, Value x, int layer) {
  if (!c.recurrent.in_layer[static_cast<size_t>(layer)]) return old_llama_attention(g, c, x, layer);
  const Scope scope(g, "mamba");
  return mamba_mixer(g, c, x);
}

// Config::intermediate_size is of what every token goes through.
Value shared_mlp(Graph& g, const Config& c, Value x) {
  const Scope scope(g, "shared_mlp");
  return stacked_mlp(g, c, x, "input_linear", "output_linear");
}

Value experts(Graph& g, const Config& c, Value x) {
  const Scope scope(g, "block_sparse_moe");
  const Routes routes = g.route(g.router(x, "router.layer", c.experts.count),
                                {.chosen = c.experts.chosen, .softmax_of_chosen = true});
  const AxisSize size = {Axis::kFfn, c.experts.size, 1};
  Experts stack{
      .count = c.experts.count, .name = "input_linear.weight", .stack_rows = 2 * c.experts.size};
  const Value gate = g.map(g.expert_linear(x, routes, stack, size), c.activation);
  stack.row_begin = c.experts.size;
  const Value inner = g.mul(gate, g.expert_linear(x, routes, stack, size));
  const Experts down{
      .count = c.experts.count, .name = "output_linear.weight", .stack_rows = c.hidden_size};
  return g.combine(g.expert_linear(inner, routes, down, hidden(c)), routes);
}

Value mlp(Graph& g, const Config& c, Value x, int) {
  const Value shared = shared_mlp(g, c, x);
  return c.experts.count == 0 ? shared : g.add(experts(g, c, x), shared);
}

void build(Graph& g, const Config& c) { build_layers(g, c, {.attention = mixer, .mlp = mlp}); }

absl::Status refine(const Json& json, Config& c) {
  RETURN_IF_ERROR(read_mamba(json, c));
  if (json.value("layer_types", Json()).is_null()) c.recurrent.in_layer.assign(c.layers, true);
  return absl::OkStatus();
}

absl::Status refine_layers(const Json& json, Config& c) {
  ExpertConfig& e = c.experts;
  ASSIGN_OR_RETURN(e.count, get_int(json, "num_local_experts", 8));
  if (e.count < 0 || e.count > kMaxExperts) {
    return invalid_argument("num_local_experts: must be 0 to {}, found {}", kMaxExperts, e.count);
  }
  if (e.count > 0) {
    ASSIGN_OR_RETURN(e.chosen, get_count(json, "num_experts_per_tok", e.count, 2));
  }
  e.size = c.intermediate_size;
  ASSIGN_OR_RETURN(c.intermediate_size,
                   get_count(json, "shared_intermediate_size", kMostColumns, 1024));
  ASSIGN_OR_RETURN(const std::string turns, get_string(json, "position_embedding_type", "nope"));
  if (turns != "rope") c.turns.assign(c.turns.size(), false);
  return absl::OkStatus();
}

constexpr Architecture kRows[] = {
    {"GraniteMoeHybridForCausalLM",
     build,
     {.positions = 2048,
      .recurrent_type = "mamba",
      .mamba = true,
      .keys = {"attention_bias", "embedding_multiplier", "attention_multiplier",
               "residual_multiplier", "logits_scaling", "layer_types", "layers_block_type",
               "num_local_experts", "num_experts_per_tok", "shared_intermediate_size",
               "position_embedding_type", "output_router_logits", "router_aux_loss_coef",
               "normalization_function", "init_method"},
      .names = {{{"layers_block_type", "layer_types"}}},
      .refine = refine,
      .refine_layers = refine_layers}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::granite4

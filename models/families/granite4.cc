// SPDX-License-Identifier: Apache-2.0
// Granite 4: Mamba-2 instead of attention in most layers; an MLP for every token, and experts
// beside it if the model has any.
#include <optional>
#include <vector>

#include "models/blocks/llama.h"
#include "models/blocks/mamba.h"
#include "models/families/families.h"
#include "operators/limits.h"

namespace lockstep::families::granite4 {
namespace {

// intermediate_size is the experts' size.
Mixture read_experts(Keys& keys, const Llama& m) {
  Mixture mixture{.hidden = m.sizes.hidden, .activation = m.mlp.activation, .size = m.sizes.ffn};
  rename_expert_counts(keys, "num_local_experts");
  mixture.count = keys.integer("num_local_experts", 0, kMaxExperts, 8);
  keys.ignore("num_experts_per_tok");
  if (mixture.count > 0) mixture.chosen = keys.count("num_experts_per_tok", mixture.count, 2);
  return mixture;
}

Value experts(Graph& g, const Mixture& m, Value x) {
  const Scope scope(g, "block_sparse_moe");
  const Routes routes = g.route(g.router(x, "router.layer", m.count),
                                {.chosen = m.chosen, .softmax_of_chosen = true});
  Experts stack{.count = m.count, .name = "input_linear.weight", .stack_rows = 2 * m.size};
  const Value gate = g.map(g.expert_linear(x, routes, stack, m.axis()), m.activation);
  stack.row_begin = m.size;
  const Value inner = g.mul(gate, g.expert_linear(x, routes, stack, m.axis()));
  const Experts down{.count = m.count, .name = "output_linear.weight", .stack_rows = m.hidden};
  return g.combine(g.expert_linear(inner, routes, down, hidden_axis(m.hidden)), routes);
}

LanguageModel granite4(Keys& keys) {
  keys.rename("layers_block_type", "layer_types");
  keys.ignore("output_router_logits router_aux_loss_coef normalization_function init_method");
  Llama m(keys, {.sizes = {.positions = 2048}});
  m.attention.set_bias(keys.flag("attention_bias", false));
  m.attention.scale = keys.factor("attention_multiplier");
  if (keys.text("position_embedding_type", "nope") != "rope") m.attention.rotate_nothing();
  std::vector<bool> recurs(static_cast<size_t>(m.sizes.layers), true);
  read_recurrent_types(keys, recurs, "mamba");
  const Mamba mamba = read_mamba(keys, m.sizes, m.norm);
  const Mixture mixture = read_experts(keys, m);
  m.mlp.width = m.sizes.ffn = keys.count("shared_intermediate_size", kMaxWidth, 1024);
  LanguageModel d =
      m.model(mamba_or_attention(mamba, m.attention, recurs),
              [=, shared_mlp = stacked_mlp(m.mlp, "input_linear", "output_linear")](
                  Graph& g, Value x, int layer) {
                std::optional<Scope> scope(std::in_place, g, "shared_mlp");
                const Value shared = shared_mlp(g, x, layer);
                scope.reset();
                return mixture.count == 0 ? shared : g.add(experts(g, mixture, x), shared);
              });
  d.embedding_multiplier = keys.factor("embedding_multiplier");
  d.residual_multiplier = keys.factor("residual_multiplier");
  d.logits_multiplier = 1 / keys.factor("logits_scaling");
  d.mixture = mixture;
  return d;
}

constexpr Architecture kRows[] = {{"GraniteMoeHybridForCausalLM", granite4}};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::granite4

// SPDX-License-Identifier: Apache-2.0
// GPT-OSS: sinks in every head, windows in every second layer, experts whose gate and up alternate
// in one matrix.
#include "models/blocks/llama.h"
#include "models/families/families.h"

namespace lockstep::families::gpt_oss {
namespace {

// down((up + 1) * gate * sigmoid(1.702 gate)); up is clamped on both sides, gate from above.
Value experts(Graph& g, const Mixture& m, float limit, Value x) {
  const Scope scope(g, "mlp");
  const Routes routes = g.route(g.router(x, "router", m.count, /*bias=*/true),
                                {.chosen = m.chosen, .softmax_of_chosen = true});
  Experts gate_up{.count = m.count,
                  .name = "experts.gate_up_proj",
                  .stack_rows = 2 * m.size,
                  .transposed = true,
                  .interleaved = 2};
  const Value gate = g.expert_linear(x, routes, gate_up, m.axis(), /*bias=*/true);
  gate_up.row_begin = 1;
  const Value up = g.expert_linear(x, routes, gate_up, m.axis(), /*bias=*/true);
  const Value swish = g.map(g.map(gate, Function::kClampAbove, limit), Function::kQuickGelu);
  const Value inner = g.add(g.mul(swish, g.map(up, Function::kClamp, limit)), swish);
  const Experts down{
      .count = m.count, .name = "experts.down_proj", .stack_rows = m.hidden, .transposed = true};
  return g.combine(g.expert_linear(inner, routes, down, hidden_axis(m.hidden), /*bias=*/true),
                   routes);
}

LanguageModel gpt_oss(Keys& keys) {
  keys.only("swiglu_alpha", 1.702);
  keys.ignore("experts_per_token initial_context_length");
  Llama m(
      keys,
      {.sizes = {.head_dim = 64}, .norm = read_rms_norm(keys, 1e-5), .rope = {.theta = 150000}});
  m.attention.set_bias(keys.flag("attention_bias", true));
  m.attention.sinks = "self_attn.sinks";
  m.attention.windows = windows_by_pattern(keys, m.sizes.layers, 128, 2);
  const Mixture mixture = read_mixture(keys, m.sizes, m.mlp, "num_local_experts",
                                       {.count = 128, .chosen = 4, .always_renormalised = true});
  const float limit = keys.factor("swiglu_limit", 7);
  return m.model(mixture, [=](Graph& g, Value x, int) { return experts(g, mixture, limit, x); });
}

constexpr Architecture kRows[] = {{"GptOssForCausalLM", gpt_oss}};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::gpt_oss

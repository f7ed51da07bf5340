// SPDX-License-Identifier: Apache-2.0
// GPT-OSS: sinks in every head, windows in every second layer, experts whose gate and up alternate
// in one matrix.
#include "base/status.h"
#include "models/blocks.h"
#include "models/config_keys.h"
#include "models/families/families.h"

namespace lockstep::families::gpt_oss {
namespace {

// down((up + 1) * gate * sigmoid(1.702 gate)), of which up is bounded on both sides, gate above.
Value experts(Graph& g, const Config& c, Value x, int) {
  const Scope scope(g, "mlp");
  const Routes routes = g.route(g.router(x, "router", c.experts.count, /*bias=*/true),
                                {.chosen = c.experts.chosen, .softmax_of_chosen = true});
  Experts gate_up{.count = c.experts.count,
                  .name = "experts.gate_up_proj",
                  .stack_rows = 2 * c.experts.size,
                  .transposed = true,
                  .interleaved = 2};
  const AxisSize size = {Axis::kFfn, c.experts.size, 1};
  const Value gate = g.expert_linear(x, routes, gate_up, size, /*bias=*/true);
  gate_up.row_begin = 1;
  const Value up = g.expert_linear(x, routes, gate_up, size, /*bias=*/true);
  const Value swish = g.map(g.map(gate, Function::kClampAbove, c.gate_limit), c.activation);
  const Value inner = g.add(g.mul(swish, g.map(up, Function::kClamp, c.gate_limit)), swish);
  const Experts down{.count = c.experts.count,
                     .name = "experts.down_proj",
                     .stack_rows = c.hidden_size,
                     .transposed = true};
  return g.combine(g.expert_linear(inner, routes, down, hidden(c), /*bias=*/true), routes);
}

void build_gpt_oss(Graph& g, const Config& c) { build_layers(g, c, {.mlp = experts}); }

absl::Status refine_gpt_oss(const Json& json, Config& c) {
  ASSIGN_OR_RETURN(const double limit, get_double(json, "swiglu_limit", 7));
  ASSIGN_OR_RETURN(const double slope, get_double(json, "swiglu_alpha", 1.702));
  if (!(limit > 0 && limit <= 1e6)) {
    return invalid_argument("swiglu_limit: must be a number above 0 and up to 1e6, found {}",
                            limit);
  }
  if (slope != 1.702) {
    return invalid_argument("swiglu_alpha: {} is not supported; supported: 1.702", slope);
  }
  c.gate_limit = static_cast<float>(limit);
  c.activation = Function::kQuickGelu;
  c.sinks = "self_attn.sinks";
  return absl::OkStatus();
}

constexpr Architecture kRows[] = {
    {"GptOssForCausalLM",
     build_gpt_oss,
     {.attention_bias = true,
      .norm_eps = 1e-5,
      .rope_theta = 150000,
      .head_dim = 64,
      .window = WindowRule::kPattern,
      .default_window = 128,
      .full_every = 2,
      .keys = {"attention_bias", "sliding_window", "layer_types", "swiglu_limit", "swiglu_alpha",
               "experts_per_token", "initial_context_length"},
      .experts = {.count_key = "num_local_experts",
                  .count = 128,
                  .chosen = 4,
                  .always_renormalised = true},
      .refine = refine_gpt_oss}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::gpt_oss

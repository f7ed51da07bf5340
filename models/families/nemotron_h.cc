// SPDX-License-Identifier: Apache-2.0
// Nemotron-H (https://arxiv.org/abs/2504.03624): a layer is one block, x += block(norm(x)): Mamba-2
// (M), attention that turns nothing (*), an MLP (-) or experts (E), by a pattern.
#include "base/status.h"
#include "models/blocks.h"
#include "models/config_keys.h"
#include "models/expert_blocks.h"
#include "models/families/families.h"
#include "models/mamba_blocks.h"

namespace lockstep::families::nemotron_h {
namespace {

Value experts(Graph& g, const Config& c, Value x) {
  const Routes routes = g.route(g.router(x, "gate", c.experts.count), biased_routing(c),
                                "gate.e_score_correction_bias");
  const auto linear = [&](Value from, const char* name, AxisSize out) {
    return g.expert_linear(from, routes, {.count = c.experts.count, .name = name}, out);
  };
  const Value inner = linear(x, "experts.*.up_proj", {Axis::kFfn, c.experts.size, 1});
  const Value routed = linear(g.map(inner, c.activation), "experts.*.down_proj", hidden(c));
  const AxisSize size = {Axis::kFfn, c.experts.shared_size, 1};
  const Value shared = g.map(g.linear(x, "shared_experts.up_proj", size), c.activation);
  return g.add(g.combine(routed, routes), g.linear(shared, "shared_experts.down_proj", hidden(c)));
}

Value block(Graph& g, const Config& c, Value x, int layer) {
  const char kind = c.recurrent.pattern[static_cast<size_t>(layer)];
  if (kind == '*') return separate_attention(g, c, x, layer, "mixer", "mixer.o_proj");
  const Scope scope(g, "mixer");
  if (kind == 'M') return mamba_mixer(g, c, x);
  return kind == 'E' ? experts(g, c, x) : plain_mlp(g, c, x, "up_proj", "down_proj");
}

void build(Graph& g, const Config& c) {
  const std::string embedding = "backbone.embeddings";
  Value x = g.embed(embedding, vocab(c), hidden(c));
  for (int layer = 0; layer < c.layers; ++layer) {
    const Scope scope(g, fmt::format("backbone.layers.{}", layer));
    x = g.add(x, block(g, c, g.rms_norm(x, "norm", c.norm_eps), layer));
  }
  x = g.rms_norm(g.select_rows(x), "backbone.norm_f", c.norm_eps);
  g.top_candidates(g.head(x, c.tie_word_embeddings ? embedding : "lm_head", vocab(c)));
}

absl::Status refine(const Json& json, Config& c) {
  RETURN_IF_ERROR(read_mamba(json, c));
  const OnlyValue only[] = {
      {"moe_latent_size", nullptr}, {"mlp_bias", false}, {"mamba_hidden_act", "silu"}};
  RETURN_IF_ERROR(check_only(json, only));
  return read_block_pattern(json, c);
}

absl::Status refine_layers(const Json& json, Config& c) {
  c.turns.assign(static_cast<size_t>(c.layers), false);
  ASSIGN_OR_RETURN(c.experts.shared_size,
                   get_count(json, "moe_shared_expert_intermediate_size", kMostColumns, 7688));
  return absl::OkStatus();
}

constexpr Architecture kRows[] = {
    {"NemotronHForCausalLM",
     build,
     {.norm_eps = 1e-5,
      .activation = "relu2",
      .kv_heads = 8,
      .head_dim = 128,
      .defaults = R"({"mamba_n_groups": 8, "mamba_d_state": 128, "mamba_d_head": 64})",
      .mamba = true,
      .keys = {"attention_bias", "mamba_hidden_act", "mlp_bias", "hybrid_override_pattern",
               "layers_block_type", "residual_in_fp32", "rescale_prenorm_residual",
               "moe_shared_expert_intermediate_size", "moe_shared_expert_overlap",
               "moe_latent_size"},
      .names = {{{"mamba_num_heads", "mamba_n_heads"},
                 {"n_groups", "mamba_n_groups"},
                 {"ssm_state_size", "mamba_d_state"},
                 {"mamba_head_dim", "mamba_d_head"},
                 {"conv_kernel", "mamba_d_conv"},
                 {"use_conv_bias", "mamba_conv_bias"},
                 {"expand", "mamba_expand"},
                 {"mlp_hidden_act", "hidden_act"},
                 {"layer_norm_epsilon", "rms_norm_eps"},
                 {"norm_eps", "rms_norm_eps"},
                 {"attention_head_dim", "head_dim"}}},
      .experts = {.count_key = "n_routed_experts",
                  .count = 8,
                  .chosen = 2,
                  .size = 7688,
                  .renormalised = true,
                  .grouped = true},
      .refine = refine,
      .refine_layers = refine_layers}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::nemotron_h

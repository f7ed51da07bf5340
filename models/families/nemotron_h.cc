// SPDX-License-Identifier: Apache-2.0
// Nemotron-H (https://arxiv.org/abs/2504.03624): a layer is one block, x += block(norm(x)): Mamba-2
// (M), attention without rotation (*), an MLP (-) or experts (E), by a pattern.
#include <map>
#include <string>

#include "models/blocks/llama.h"
#include "models/blocks/mamba.h"
#include "models/families/families.h"

namespace lockstep::families::nemotron_h {
namespace {

// hybrid_override_pattern has one letter per layer, layers_block_type one word.
std::string read_block_pattern(Keys& keys, int layers) {
  const std::map<std::string, char> letters = {
      {"linear_attention", 'M'}, {"mamba", 'M'}, {"full_attention", '*'},
      {"attention", '*'},        {"mlp", '-'},   {"moe", 'E'}};
  std::string pattern = keys.text("hybrid_override_pattern", "");
  if (const Json& words = keys.json("layers_block_type"); words.is_array()) {
    pattern.clear();
    for (const Json& word : words) {
      const auto found = word.is_string() ? letters.find(word.get<std::string>()) : letters.end();
      pattern += found == letters.end() ? '?' : found->second;
    }
  }
  if (pattern.size() != static_cast<size_t>(layers) ||
      pattern.find_first_not_of("M*-E") != std::string::npos) {
    keys.fail("hybrid_override_pattern", "must be {} letters M, *, - or E, found {}", layers,
              printable(pattern));
  }
  return pattern;
}

Value experts(Graph& g, const Mixture& m, Value x) {
  const Routes routes =
      g.route(g.router(x, "gate", m.count), biased_routing(m), "gate.e_score_correction_bias");
  const auto linear = [&](Value from, const char* name, AxisSize out) {
    return g.expert_linear(from, routes, {.count = m.count, .name = name}, out);
  };
  const AxisSize hidden = hidden_axis(m.hidden);
  const Value inner = linear(x, "experts.*.up_proj", m.axis());
  const Value routed = linear(g.map(inner, m.activation), "experts.*.down_proj", hidden);
  const Value shared = plain_mlp(m.shared(), "shared_experts.up_proj", "shared_experts.down_proj")(
      g, x, /*layer=*/0);
  return g.add(g.combine(routed, routes), shared);
}

LanguageModel nemotron_h(Keys& keys) {
  keys.rename("mamba_num_heads", "mamba_n_heads");
  keys.rename("n_groups", "mamba_n_groups");
  keys.rename("ssm_state_size", "mamba_d_state");
  keys.rename("mamba_head_dim", "mamba_d_head");
  keys.rename("conv_kernel", "mamba_d_conv");
  keys.rename("use_conv_bias", "mamba_conv_bias");
  keys.rename("expand", "mamba_expand");
  keys.rename("mlp_hidden_act", "hidden_act");
  keys.rename("layer_norm_epsilon", "rms_norm_eps");
  keys.rename("norm_eps", "rms_norm_eps");
  keys.rename("attention_head_dim", "head_dim");
  keys.defaults(R"({"mamba_n_groups": 8, "mamba_d_state": 128, "mamba_d_head": 64})");
  keys.only("moe_latent_size", nullptr);
  keys.only("mlp_bias", false);
  keys.only("mamba_hidden_act", "silu");
  keys.ignore("residual_in_fp32 rescale_prenorm_residual moe_shared_expert_overlap");
  Llama m(keys, {.sizes = {.kv_heads = 8, .head_dim = 128},
                 .norm = read_rms_norm(keys, 1e-5),
                 .activation = "relu2"});
  m.attention.set_bias(keys.flag("attention_bias", false));
  m.attention.rotate_nothing();
  const Mamba mamba = read_mamba(keys, m.sizes, m.norm);
  Mixture mixture =
      read_mixture(keys, m.sizes, m.mlp, "n_routed_experts",
                   {.count = 8, .chosen = 2, .size = 7688, .renormalised = true, .grouped = true});
  mixture.shared_size = keys.count("moe_shared_expert_intermediate_size", kMaxWidth, 7688);
  const std::string pattern = read_block_pattern(keys, m.sizes.layers);
  LanguageModel d =
      m.model([=, attention = separate_attention(m.attention, "mixer", "mixer.o_proj"),
               mlp = plain_mlp(m.mlp, "up_proj", "down_proj")](Graph& g, Value x, int layer) {
        const char kind = pattern[static_cast<size_t>(layer)];
        if (kind == '*') return attention(g, x, layer);
        const Scope scope(g, "mixer");
        if (kind == 'M') return mamba_mixer(g, mamba, x);
        return kind == 'E' ? experts(g, mixture, x) : mlp(g, x, layer);
      });
  d.mlp = nullptr;
  d.embedding = "backbone.embeddings";
  d.layers = "backbone.layers";
  d.attention_norm = "norm";
  d.norm = "backbone.norm_f";
  d.mixture = mixture;
  return d;
}

constexpr Architecture kRows[] = {{"NemotronHForCausalLM", nemotron_h}};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::nemotron_h

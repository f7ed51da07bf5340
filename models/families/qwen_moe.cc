// SPDX-License-Identifier: Apache-2.0
// Qwen2-MoE and Qwen3-MoE: the attention of Qwen2 and Qwen3; some layers may have a dense MLP;
// Qwen2 adds a shared expert to the chosen ones. Qwen3-VL stores experts in stacks: inputs first as
// published, outputs first as transformers 5 saves them.
#include "models/blocks/llama.h"
#include "models/families/families.h"

namespace lockstep::families::qwen_moe {
namespace {

LanguageModel qwen2_moe(Keys& keys) {
  keys.rename("qkv_bias", "use_qkv_bias");
  Llama m(keys);
  m.attention.qkv_bias = keys.flag("use_qkv_bias", true);
  m.attention.windows = windows_by_layer(keys, m.sizes.layers, 4096, 0);
  // Without layer_types, transformers 4 has the window in every layer, transformers 5 in every
  // second layer below max_window_layers.
  if (keys.flag("use_sliding_window", false) && !keys.has("layer_types")) {
    keys.fail("use_sliding_window",
              "releases of transformers differ in the layers that have the window: the config must "
              "have layer_types, found nothing");
  }
  const Mixture experts =
      read_mixture(keys, m.sizes, m.mlp, "num_experts",
                   {.count = 60, .chosen = 4, .size = 1408, .shared_size = 5632, .by_layer = true});
  return m.model(experts, qwen_experts(experts, m.mlp));
}

Llama qwen3_attention(Keys& keys) {
  Llama m(keys);
  m.attention.norm_heads(keys);
  m.attention.set_bias(keys.flag("attention_bias", false));
  keys.ignore("max_window_layers");
  return m;
}

LanguageModel qwen3_moe(Keys& keys) {
  Llama m = qwen3_attention(keys);
  keys.ignore("sliding_window");
  if (keys.flag("use_sliding_window", false)) {
    m.attention.windows = windows_of_all(keys, m.sizes.layers, 4096);
  }
  read_layer_types(keys, m.attention.windows);
  const Mixture experts = read_mixture(keys, m.sizes, m.mlp, "num_experts",
                                       {.count = 128, .chosen = 8, .size = 768, .by_layer = true});
  return m.model(experts, qwen_experts(experts, m.mlp));
}

bool is_qwen3_vl(const Json& json) {
  return json.value("model_type", Json()) == "qwen3_vl_moe_text";
}

LanguageModel qwen3_vl_moe(Keys& keys) {
  const Llama m = qwen3_attention(keys);
  keys.ignore("use_sliding_window sliding_window");
  Windows none = m.attention.windows;
  read_layer_types(keys, none);
  const Mixture experts = read_mixture(
      keys, m.sizes, m.mlp, "num_experts",
      {.count = 60, .chosen = 4, .size = 1408, .always_renormalised = true, .by_layer = true});
  LanguageModel d = m.model(
      experts, sparse(experts, m.mlp, [=](Graph& g, Value x, int) {
        const Routes routes = g.route(g.router(x, "gate", experts.count), routing(experts));
        return g.combine(stacked_experts(g, experts, x, routes, /*transposed=*/true), routes);
      }));
  d.either_layout = true;
  return d;
}

constexpr Architecture kRows[] = {
    {"Qwen2MoeForCausalLM", qwen2_moe},
    {"Qwen3MoeForCausalLM", qwen3_vl_moe, is_qwen3_vl},
    {"Qwen3MoeForCausalLM", qwen3_moe},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::qwen_moe

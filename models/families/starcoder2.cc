// SPDX-License-Identifier: Apache-2.0
// StarCoder2: Llama's attention, layer norms, an MLP without a gate.
#include "models/blocks/llama.h"
#include "models/families/families.h"

namespace lockstep::families::starcoder2 {
namespace {

LanguageModel starcoder2(Keys& keys) {
  keys.rename("norm_epsilon", "rms_norm_eps");
  keys.rename("use_bias", "attention_bias");
  keys.ignore("activation_function layer_norm_epsilon");  // Keys of an older class.
  Llama m(keys, {.sizes = {.kv_heads = 2},
                 .norm = read_layer_norm(keys),
                 .activation = "gelu_pytorch_tanh",
                 .tied = true});
  keys.only("norm_type", "layer_norm");
  keys.only("mlp_type", "default");
  m.mlp.bias = keys.flag("attention_bias", true);
  m.attention.set_bias(m.mlp.bias);
  m.attention.windows = windows_of_all(keys, m.sizes.layers, 0);
  return m.model(nullptr, plain_mlp(m.mlp, "mlp.c_fc", "mlp.c_proj"));
}

constexpr Architecture kRows[] = {{"Starcoder2ForCausalLM", starcoder2}};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::starcoder2

// SPDX-License-Identifier: Apache-2.0
// Llama's layers with additions: in Qwen2 biases of q, k and v, in Qwen3 a norm of each head of q
// and k.
#include "models/blocks/llama.h"
#include "models/families/families.h"

namespace lockstep::families::qwen {
namespace {

LanguageModel qwen2(Keys& keys) {
  keys.only("use_qkv_bias", true);
  Llama m(keys);
  m.attention.qkv_bias = true;
  m.attention.windows = windows_by_layer(keys, m.sizes.layers, 4096, 28);
  return m.model();
}

LanguageModel qwen3(Keys& keys) {
  Llama m(keys, {.sizes = {.head_dim = 128}});
  m.attention.norm_heads(keys);
  m.attention.set_bias(keys.flag("attention_bias", false));
  m.attention.windows = windows_by_layer(keys, m.sizes.layers, 4096, 28);
  return m.model();
}

constexpr Architecture kRows[] = {
    {"Qwen2ForCausalLM", qwen2},
    {"Qwen3ForCausalLM", qwen3},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::qwen

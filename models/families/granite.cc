// SPDX-License-Identifier: Apache-2.0
// Granite: Llama with four multipliers.
#include "models/blocks/llama.h"
#include "models/families/families.h"

namespace lockstep::families::granite {
namespace {

LanguageModel granite(Keys& keys) {
  Llama m(keys);
  m.attention.set_bias(keys.flag("attention_bias", false));
  m.attention.scale = keys.factor("attention_multiplier");
  m.mlp.bias = keys.flag("mlp_bias", false);
  LanguageModel d = m.model();
  d.embedding_multiplier = keys.factor("embedding_multiplier");
  d.residual_multiplier = keys.factor("residual_multiplier");
  d.logits_multiplier = 1 / keys.factor("logits_scaling");
  return d;
}

constexpr Architecture kRows[] = {{"GraniteForCausalLM", granite}};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::granite

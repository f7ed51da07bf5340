// SPDX-License-Identifier: Apache-2.0
// Nemotron 3 and 4 and Minitron: Llama's attention with half of each head rotated; layer norms that
// multiply by 1 + w, where files store w; an MLP without a gate.
#include "models/blocks/llama.h"
#include "models/families/families.h"

namespace lockstep::families::nemotron {
namespace {

LanguageModel nemotron(Keys& keys) {
  keys.rename("norm_eps", "rms_norm_eps");
  keys.rename("rope_percent", "partial_rotary_factor");
  keys.rename("rope_percentage", "partial_rotary_factor");
  Norm norm = read_layer_norm(keys);
  norm.plus = 1;
  Llama m(
      keys,
      {.sizes = {.positions = 4096}, .norm = norm, .activation = "relu2", .rope = {.part = 0.5}});
  m.attention.set_bias(keys.flag("attention_bias", false));
  m.mlp.bias = keys.flag("mlp_bias", false);
  return m.model(nullptr, plain_mlp(m.mlp, "mlp.up_proj", "mlp.down_proj"));
}

constexpr Architecture kRows[] = {{"NemotronForCausalLM", nemotron}};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::nemotron

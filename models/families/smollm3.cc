// SPDX-License-Identifier: Apache-2.0
// SmolLM3: Llama with layers that do not rotate; only these may have a window.
#include "models/blocks/llama.h"
#include "models/families/families.h"

namespace lockstep::families::smollm3 {
namespace {

LanguageModel smollm3(Keys& keys) {
  Llama m(keys, {.sizes = {.kv_heads = 4}, .tied = true, .rope = {.theta = 2000000}});
  m.attention.set_bias(keys.flag("attention_bias", false));
  m.mlp.bias = keys.flag("mlp_bias", false);
  m.attention.rotates = rotates_by_layer(keys, m.sizes.layers, 4);
  keys.ignore("sliding_window max_window_layers");  // Nothing reads the second one.
  const bool used = keys.flag("use_sliding_window", false);
  const int64_t window = used ? read_window(keys, 0) : 0;
  for (size_t i = 0; i < m.attention.windows.size(); ++i) {
    m.attention.windows[i] = m.attention.rotates[i] ? 0 : window;
  }
  read_layer_types(keys, m.attention.windows, used ? std::optional(window) : std::nullopt);
  return m.model();
}

constexpr Architecture kRows[] = {{"SmolLM3ForCausalLM", smollm3}};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::smollm3

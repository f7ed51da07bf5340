// SPDX-License-Identifier: Apache-2.0
// Phi-3 to Phi-4: Llama's layers over fused matrices, with a window, a part of each head rotated,
// and other frequencies in long sequences if the config says so.
#include "models/blocks/llama.h"
#include "models/families/families.h"

namespace lockstep::families::phi3 {
namespace {

LanguageModel phi3(Keys& keys) {
  keys.defaults(R"({"original_max_position_embeddings": 4096})");
  keys.ignore("full_attn_mod interpolate_factor");  // The reference does not read them.
  Llama m(keys, {.norm = read_rms_norm(keys, 1e-5), .rope = {.part = 1, .yarn_is_longrope = true}});
  m.attention.windows = windows_of_all(keys, m.sizes.layers, 0);
  return m.model(stacked_attention(m.attention, "self_attn.qkv_proj", "self_attn.o_proj"),
                 stacked_mlp(m.mlp, "mlp.gate_up_proj", "mlp.down_proj"));
}

constexpr Architecture kRows[] = {{"Phi3ForCausalLM", phi3}};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::phi3

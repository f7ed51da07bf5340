// SPDX-License-Identifier: Apache-2.0
// EXAONE 4: Llama's blocks with a norm per head of q and k, and norms after attention and MLP
// instead of before them.
#include "models/blocks/llama.h"
#include "models/families/families.h"

namespace lockstep::families::exaone4 {
namespace {

LanguageModel exaone4(Keys& keys) {
  Llama m(keys, {.sizes = {.kv_heads = 32}, .norm = read_rms_norm(keys, 1e-5)});
  m.attention.norm_heads(keys);
  m.attention.windows = windows_by_pattern(keys, m.sizes.layers, 4096, 4, /*reads_pattern=*/true);
  m.attention.rotate_with_windows(keys);
  return post_norm(m.model());
}

constexpr Architecture kRows[] = {{"Exaone4ForCausalLM", exaone4}};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::exaone4

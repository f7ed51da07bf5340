// SPDX-License-Identifier: Apache-2.0
// Llama 1 to 3, Mistral, Qwen2, Qwen3, InternLM and SmolLM3 differ only in Config.
#include "models/llama.h"

#include "models/blocks.h"

namespace lockstep {

void build_llama(Graph& g, const Config& c) { build_pre_norm(g, c, {}); }

}  // namespace lockstep

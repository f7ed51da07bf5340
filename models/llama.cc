// SPDX-License-Identifier: Apache-2.0
// Llama 1 to 3, Mistral, Qwen2, Qwen3, InternLM, SmolLM3, Granite, Gemma, StableLM and Cohere
// differ only in Config.
#include "models/llama.h"

#include "models/blocks.h"

namespace lockstep {

void build_llama(Graph& g, const Config& c) { build_layers(g, c, {}); }

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/llama.h"

#include <utility>

namespace lockstep {

Llama::Llama(Keys& keys, const LlamaDefaults& missing)
    : sizes(read_sizes(keys, missing.sizes)),
      norm(missing.norm.has_value() ? *missing.norm : read_rms_norm(keys)),
      attention(sizes, norm),
      mlp(read_mlp(keys, sizes, missing.activation)),
      tied(keys.flag("tie_word_embeddings", missing.tied)) {
  attention.ropes = read_rope(keys, sizes, missing.rope);
}

LanguageModel Llama::model(Block attention_block, Block mlp_block) const {
  if (attention_block == nullptr) attention_block = llama_attention(attention);
  if (mlp_block == nullptr) mlp_block = gated_mlp(mlp);
  return {.sizes = sizes,
          .norms = norm,
          .attention = std::move(attention_block),
          .mlp = std::move(mlp_block),
          .tied = tied,
          .reach = attention.ropes.reach};
}

LanguageModel Llama::model(const Mixture& mixture, Block mlp_block) const {
  LanguageModel made = model(nullptr, std::move(mlp_block));
  made.mixture = mixture;
  return made;
}

}  // namespace lockstep

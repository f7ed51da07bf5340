// SPDX-License-Identifier: Apache-2.0
// The keys that Llama's class reads from a config.json. Most families read the same keys and then
// change what differs: `Llama m(keys); m.attention.windows = ...; return m.model();`
#pragma once

#include <optional>

#include "models/blocks/language_model.h"

namespace lockstep {

// Defaults of missing keys.
struct LlamaDefaults {
  SizeDefaults sizes = {};
  std::optional<Norm> norm = std::nullopt;  // None: an RMS norm with eps 1e-6.
  const char* activation = "silu";
  bool tied = false;
  RopeFacts rope = {};
};

struct Llama {
  Sizes sizes;
  Norm norm;
  Attention attention;
  Mlp mlp;
  bool tied = false;

  explicit Llama(Keys& keys, const LlamaDefaults& missing = {});
  void set_kv_heads(int64_t heads) { sizes.kv_heads = attention.kv_heads = heads; }
  // A model of the current parts; null means Llama's blocks.
  LanguageModel model(Block attention_block = nullptr, Block mlp_block = nullptr) const;
  LanguageModel model(const Mixture& mixture, Block mlp_block) const;
};

}  // namespace lockstep

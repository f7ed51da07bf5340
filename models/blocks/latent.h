// SPDX-License-Identifier: Apache-2.0
// Latent attention (DeepSeek-V2, https://arxiv.org/abs/2405.04434): keys and values of all heads
// are made from one narrow row, which is what is kept.
#pragma once

#include <cstdint>

#include "models/blocks/attention.h"

namespace lockstep {

// A head's columns that turn are Attention::head_dim.
struct Latent {
  int64_t q_width = 0;   // The row that queries are made from; 0: from the layer's input.
  int64_t kv_width = 1;  // Of the row that keys and values are made from.
  int64_t nope_dim = 1;  // Of a query or key head: columns that do not turn.
  int64_t v_dim = 1;
};
// The scale of scores follows from the sizes and from yarn.
Latent read_latent(Keys& keys, Attention& attention);

// Its absorbed form, for prompts too: a query head is brought into the space of the latent row by
// its own part of kv_b_proj, so that all heads share one key, [latent | turned], whose first
// columns are the value; another part of kv_b_proj brings what was summed up into the space of the
// head's values. Sums are in one order whatever the chunks.
Block latent_attention(const Attention& attention, const Latent& latent);

}  // namespace lockstep

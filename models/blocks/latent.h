// SPDX-License-Identifier: Apache-2.0
// Latent attention (DeepSeek-V2, https://arxiv.org/abs/2405.04434): keys and values of all heads
// are computed from one narrow row, and only that row is cached.
#pragma once

#include <cstdint>

#include "models/blocks/attention.h"

namespace lockstep {

// Attention::head_dim is the number of rotated columns of a head.
struct Latent {
  int64_t q_width = 0;   // Columns of the row that queries are computed from; 0: the layer's input.
  int64_t kv_width = 1;  // Columns of the row that keys and values are computed from.
  int64_t nope_dim = 1;  // Columns of a query or key head without rotation.
  int64_t v_dim = 1;     // Columns of a value head.
};
// Also sets attention.scale, from the sizes and YaRN.
Latent read_latent(Keys& keys, Attention& attention);

// The absorbed form, in prefill too. A part of kv_b_proj maps each query head into the space of the
// latent row, so all heads share one key, [latent | rotated], whose first columns are the value.
// Another part of kv_b_proj maps a head's weighted sum of values into the head's own value space.
// The order of every sum is the same however a prompt is cut into chunks.
Block latent_attention(const Attention& attention, const Latent& latent);

}  // namespace lockstep

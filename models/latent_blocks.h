// SPDX-License-Identifier: Apache-2.0
// What families with latent attention share.
#pragma once

#include "models/blocks.h"

namespace lockstep {

// Latent attention in its absorbed form, for prompts too: a query head is brought into the space of
// the latent row by its own part of kv_b_proj, so that all heads share one key, [latent | turned],
// whose first columns are the value; another part of kv_b_proj brings what was summed up into the
// space of the head's values. Sums are in one order whatever the chunks.
Value old_latent_attention(Graph& graph, const Config& config, Value x, int layer);

}  // namespace lockstep

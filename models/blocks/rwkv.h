// SPDX-License-Identifier: Apache-2.0
// RWKV: the parts that its versions share.
#pragma once

#include <cstdint>
#include <string>

#include "models/blocks/llama.h"

namespace lockstep {

// Reads sizes and layer norms. No value depends on a position, so the trained length is no limit.
Llama read_rwkv(Keys& keys, const SizeDefaults& missing);

// The heads of the state, in version 5 and later.
struct RwkvHeads {
  int64_t hidden = 1;
  int64_t count = 1;
  int64_t dim = 1;
  float norm_eps = 64e-5f;  // The eps of the norm within heads.

  AxisSize axis() const { return {Axis::kHeads, count, dim}; }
};
// Computes the number of heads from head_dim: num_attention_heads means something else in published
// files.
RwkvHeads read_rwkv_heads(Keys& keys, Llama& m);

// Uses the names of the published files of version 5 and later.
LanguageModel rwkv_model(const Llama& m, Block time_mix, Block channel_mix);

// A normed row and the one before it.
struct TokenShift {
  Value x;
  Value before;
};
TokenShift token_shift(Graph& graph, Value x);

// x + (before - x) * the vector `name`, stored as [1, 1, columns]. Versions 4 and 5 store the
// weight of x, not of `before`: they need mix_own(), in which x and `before` are swapped.
Value mix_before(Graph& graph, const TokenShift& rows, const std::string& name);
Value mix_own(Graph& graph, const TokenShift& rows, const std::string& name);

// A linear whose matrix is stored as [in, out], named without ".weight".
Value linear_from_transposed(Graph& graph, Value x, const std::string& name, AxisSize out);

// The norm within each head after a recurrence, "`name`.weight" and "`name`.bias".
Value norm_of_heads(Graph& graph, const RwkvHeads& heads, Value x, const std::string& name);

// The receptance, keys and values of the heads, the log of their decay's rate, and the gate's
// input, in versions 5 and 6.
struct TimeMix {
  Value r, k, v, decay, gate;
};
Value recurrent_time_mix(Graph& graph, const RwkvHeads& heads, const TimeMix& mix);

// value(key(k)), gated by receptance(r). k and r are results of mix_before() or mix_own().
Value channel_mix(Graph& graph, const Mlp& mlp, Value k, Value r);

}  // namespace lockstep

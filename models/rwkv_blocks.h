// SPDX-License-Identifier: Apache-2.0
// What RWKV's versions share.
#pragma once

#include <string>

#include "models/config.h"
#include "models/graph.h"

namespace lockstep {

// A normed row and the one before it.
struct TokenShift {
  Value x;
  Value before;
};
TokenShift token_shift(Graph& graph, Value x);

// x + (before - x) * the vector `name`, stored as [1, 1, columns]; and the other way round, as
// versions 4 and 5 store it.
Value mix_before(Graph& graph, const TokenShift& rows, const std::string& name);
Value mix_own(Graph& graph, const TokenShift& rows, const std::string& name);

// The linear whose matrix is stored as [in, out], under its bare name.
Value turned_linear(Graph& graph, Value x, const std::string& name, AxisSize out);

// e^-e^log, the decay of a state from the log of its rate.
Value decay_of(Graph& graph, Value log);

// The norm within each head that follows a recurrence, "`name`.weight" and "`name`.bias".
Value norm_of_heads(Graph& graph, const Config& config, Value x, const std::string& name);

// What heads receive, their keys and values, the log of their decay's rate, and what their gate is
// of, of versions 5 and 6.
struct TimeMix {
  Value r, k, v, decay, gate;
};
Value recurrent_time_mix(Graph& graph, const Config& config, const TimeMix& mix);

// value(key(k)), which receptance(r) opens as a gate; k and r are mixtures.
Value channel_mix(Graph& graph, const Config& config, Value k, Value r);

}  // namespace lockstep

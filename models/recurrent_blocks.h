// SPDX-License-Identifier: Apache-2.0
// What families with recurrent layers share.
#pragma once

#include "models/blocks.h"

namespace lockstep {

// Columns of the gated delta rule and of Mamba-2: of q and k; of v, the gate and what comes out; of
// what has one column for each value head.
AxisSize key_axis(const RecurrentConfig& config);
AxisSize value_axis(const RecurrentConfig& config);
AxisSize head_axis(const RecurrentConfig& config);

// Linears of a layer's x, in the axes above.
struct DeltaInputs {
  Value q, k, v;  // Before the convolution.
  Value z;        // The gate of what comes out.
  Value a, b;     // What decay and rate are made from.
};

// norm(delta_rule(silu(conv(q, k, v)), decay, rate)) * silu(z), projected. Names are relative to
// the open scope: conv1d, A_log, dt_bias, norm, out_proj.
Value gated_delta_net(Graph& graph, const Config& config, const DeltaInputs& in);

// Attention whose output is multiplied by sigmoid(gate): q_proj has by head its q, then its gate.
Value gated_attention(Graph& graph, const Config& config, Value x, int layer);

}  // namespace lockstep

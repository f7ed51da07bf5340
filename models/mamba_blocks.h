// SPDX-License-Identifier: Apache-2.0
// Mamba-2 (Dao and Gu, 2024, https://arxiv.org/abs/2405.21060).
#pragma once

#include "models/blocks.h"

namespace lockstep {

// A layer's half, by Config::recurrent; names are relative to the open scope: in_proj, conv1d,
// dt_bias, A_log, D, norm, out_proj.
Value mamba_mixer(Graph& graph, const Config& config, Value x);

}  // namespace lockstep

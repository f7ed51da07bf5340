// SPDX-License-Identifier: Apache-2.0
// Mamba-2 (Dao and Gu, 2024, https://arxiv.org/abs/2405.21060): layers with a state of fixed size
// instead of keys and values.
#pragma once

#include <cstdint>
#include <vector>

#include "models/blocks/attention.h"

namespace lockstep {

struct Mamba {
  int64_t hidden = 1;
  float norm_eps = 1e-6f;
  int64_t taps = 2;  // Rows that the convolution sums.
  bool bias = true;  // Whether the convolution has biases.
  int64_t heads = 1;
  int64_t groups = 1;  // A group of heads shares one B and one C of state_dim columns.
  int64_t head_dim = 1;
  int64_t state_dim = 1;
};
// Reads the key names of Bamba and Granite 4.
Mamba read_mamba(Keys& keys, const Sizes& sizes, const Norm& norm);

// Names are relative to the open scope: in_proj, conv1d, dt_bias, A_log, D, norm, out_proj.
Value mamba_mixer(Graph& graph, const Mamba& mamba, Value x);
// Mamba-2 in the layers that `recurs` marks, Llama's attention in others.
Block mamba_or_attention(const Mamba& mamba, const Attention& attention,
                         const std::vector<bool>& recurs);

}  // namespace lockstep

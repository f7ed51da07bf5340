// SPDX-License-Identifier: Apache-2.0
// Time mixing of RWKV 7 (Goose, https://arxiv.org/abs/2503.14456).
#pragma once

#include "models/config.h"
#include "models/graph.h"

namespace lockstep {

// Names in the checkpoint. Narrow products are "w1", "w2" and the bias "w0", stored as
// [in, out], or with `lora` the linears "w_lora.lora.0" and "w_lora.lora.2".
struct Rwkv7Names {
  const char* attention;
  const char* r;
  const char* k;
  const char* v;
  const char* out;
  const char* norm;
  bool lora;
};

// A vector of heads' columns, with the shape that it is stored in.
Value rwkv7_vector(Graph& graph, const Rwkv7Names& names, const std::string& name, AxisSize axis);

// From the second layer on values are drawn towards those of the first one, `first_v`.
Value rwkv7_time_mix(Graph& graph, const Config& config, const Rwkv7Names& names, Value x,
                     int layer, Value& first_v);

}  // namespace lockstep

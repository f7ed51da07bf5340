// SPDX-License-Identifier: Apache-2.0
// Sizes and norms, which every model has.
#pragma once

#include <cstdint>

#include "models/config/keys.h"
#include "models/graph/axis.h"
#include "models/graph/graph.h"
#include "operators/function.h"

namespace lockstep {

struct Sizes {
  int64_t vocab = 1;
  int64_t hidden = 1;
  int64_t ffn = 1;
  int layers = 1;
  int64_t heads = 1;
  int64_t kv_heads = 1;
  int64_t head_dim = 1;
  int64_t positions = 1;
};

// Defaults of missing keys; 0: the key is required, or as the field's comment says.
struct SizeDefaults {
  double ffn_per_hidden = 0;
  int64_t kv_heads = 0;  // For a missing key, not for null; 0: num_attention_heads.
  int64_t head_dim = 0;  // 0: hidden_size / num_attention_heads.
  int64_t positions = 0;
};
Sizes read_sizes(Keys& keys, const SizeDefaults& missing = {});

inline AxisSize hidden_axis(int64_t columns) { return {Axis::kHidden, columns, 1}; }
inline AxisSize ffn_axis(int64_t columns) { return {Axis::kFfn, columns, 1}; }

// Reads hidden_act, the name of a function.
Function read_activation(Keys& keys, const char* fallback = "silu");

struct Norm {
  float eps = 1e-6f;
  bool centred = false;  // A layer norm instead of an RMS norm.
  bool bias = false;     // The norm has biases.
  float plus = 0;        // Added to stored weights.
};
Norm read_rms_norm(Keys& keys, double eps = 1e-6);
Norm read_layer_norm(Keys& keys, bool bias = true);  // The eps is 1e-5.

// Applies the norm with that name; returns x if `name` is null.
Value apply(Graph& graph, const Norm& norm, Value x, const char* name);

}  // namespace lockstep

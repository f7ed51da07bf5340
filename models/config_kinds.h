// SPDX-License-Identifier: Apache-2.0
// What config.json says of layers that differ by their kind, or that share (Gemma 4): heads of
// layers that see all positions, layers that read another one's pages, embeddings for each layer.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "base/json.h"

namespace lockstep {

struct Config;

struct KindConfig {
  int64_t full_head_dim = 0;  // Of layers without a window; 0: all layers have Config's.
  int64_t full_kv_heads = 0;
  bool full_v_is_k = false;  // They make their values of what their keys are made of.
  int first_sharing = 0;     // From this layer on, pages are those of the last one of the same kind
  int64_t sharing_ffn = 0;   // before it; and so wide is their MLP.
  int64_t by_layer_width = 0;  // Columns that each layer has of an embedding of its own; 0: none.
  int64_t by_layer_rows = 0;   // Of its table: the vocabulary's, and more that nothing reads.
  int64_t absent_id = 0;       // Whose one what came as a row of embeddings has.
};

// For Gemma 4's `refine` and `refine_layers`. Errors name the key.
absl::Status read_kinds(const Json& json, Config& config);
absl::Status check_kinds(const Json& json, Config& config);

}  // namespace lockstep

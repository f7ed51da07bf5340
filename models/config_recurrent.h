// SPDX-License-Identifier: Apache-2.0
// What config.json says of recurrent layers; the functions are for families' `check` and `refine`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/json.h"

namespace lockstep {

struct Config;

// Layers that keep a state of fixed size in place of keys and values.
struct RecurrentConfig {
  std::vector<bool> in_layer;  // [layers]; others have attention.
  std::string pattern;    // [layers], where a layer is one block: M, *, - or E; see nemotron_h.
  int64_t taps = 0;       // Of their convolution.
  bool bias = false;      // Of it, and of the linears around it.
  int64_t key_heads = 0;  // Of the delta rule; of Mamba-2, which calls them groups.
  int64_t heads = 0;
  int64_t k_dim = 0;
  int64_t v_dim = 0;
};

// Which layers have attention where layer_types does not say it: those that `key` lists; all where
// it is missing.
absl::Status read_full_layers(const Json& json, std::string_view key, Config& config);

// The gated delta rule's sizes by Qwen's names, and that every full_attention_interval-th layer has
// attention.
absl::Status read_delta_rule(const Json& json, Config& config);

// The LFM2 family's convolution, and the width that its MLP's is derived from.
absl::Status read_short_conv(const Json& json, Config& config);

// Mamba-2's sizes by the names of Bamba and Granite 4. Its linears have no biases.
absl::Status read_mamba(const Json& json, Config& config);

// Layers of one block each: hybrid_override_pattern has a letter for each, layers_block_type a
// word.
absl::Status read_block_pattern(const Json& json, Config& config);

// Refuses attn_output_gate: false.
absl::Status check_output_gate(const Json& json);

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// What config.json says of latent attention (DeepSeek-V2, https://arxiv.org/abs/2405.04434): keys
// and values of all heads are made from one narrow row, which is what is kept.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "base/json.h"

namespace lockstep {

struct Config;

// A head's columns that turn are Config::head_dim.
struct LatentConfig {
  int64_t q_width = 0;   // Of the row that queries are made from; 0: from the layer's input.
  int64_t kv_width = 0;  // Of the row that keys and values are made from.
  int64_t nope_dim = 0;  // Of a query or key head: columns that do not turn.
  int64_t v_dim = 0;
};

// Sizes, and the scale of scores, for families' `refine`.
absl::Status read_latent(const Json& json, Config& config);

}  // namespace lockstep

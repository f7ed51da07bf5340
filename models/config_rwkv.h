// SPDX-License-Identifier: Apache-2.0
// What config.json says of RWKV, versions 4 to 7.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "base/json.h"

namespace lockstep {

struct Config;

struct RwkvConfig {
  int64_t width = 0;  // Version 4: columns of time mixing.
  // Columns between the two small matrices of a narrow product, of what it makes: mixtures of
  // a row and the one before (version 6), decay (6 and 7), rates, the first layer's share of the
  // values, gates (7).
  int64_t mix_rank = 0;
  int64_t decay_rank = 0;
  int64_t rate_rank = 0;
  int64_t value_rank = 0;
  int64_t gate_rank = 0;
  float norm_eps = 0;  // Of the norm within heads.
};

// For families' `refine`. Nothing depends on a position: what the model was made for is no bound.
absl::Status read_rwkv4(const Json& json, Config& config);
absl::Status read_rwkv5(const Json& json, Config& config);
absl::Status read_rwkv6(const Json& json, Config& config);
absl::Status read_rwkv7(const Json& json, Config& config);
absl::Status read_fla_rwkv7(const Json& json, Config& config);

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// Attention with linear biases (Press et al., 2022): what is added to a head's scores for each
// position that a key is away.
#pragma once

#include <cstdint>
#include <vector>

#include "models/blocks/attention.h"

namespace lockstep {

// As MPT orders them where heads are no power of two: of the power of two above every second one
// from the second on, then every second one from the first on.
std::vector<float> mpt_alibi_slopes(int64_t heads);

}  // namespace lockstep

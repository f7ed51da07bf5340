// SPDX-License-Identifier: Apache-2.0
// Attention with linear biases (Press et al., 2022): what is added to a head's scores for each
// position that a key is away.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep {

// [heads]: 2^(-8 i / heads) for i = 1 to heads, where that is a power of two; else those of the
// power of two below, then every second one of twice that.
std::vector<float> alibi_slopes(int64_t heads);

// As MPT orders them where heads are no power of two: of the power of two above every second one
// from the second on, then every second one from the first on.
std::vector<float> mpt_alibi_slopes(int64_t heads);

}  // namespace lockstep

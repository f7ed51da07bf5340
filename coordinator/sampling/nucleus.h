// SPDX-License-Identifier: Apache-2.0
// Finds the tokens that top_k, top_p and min_p keep. It does not sort the vocabulary: selection
// (Hoare's quickselect) takes time linear in the number of tokens.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "coordinator/engine/engine_request.h"
#include "coordinator/sampling/ranking.h"

namespace lockstep {

// Moves the kept tokens to the front, in any order, and returns their number. `mass`: the sum of
// exp(edited - the best edited) over all tokens, for top_p; not used with top_k, which sums the
// tokens that it keeps. Nullopt if a sum is so close to a bound that its order of addition may
// decide: then the order of tokens must be known.
std::optional<size_t> select_nucleus(const SamplingParams& params, double mass,
                                     std::vector<ScoredToken>* tokens);

}  // namespace lockstep

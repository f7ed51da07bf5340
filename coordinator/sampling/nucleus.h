// SPDX-License-Identifier: Apache-2.0
// The tokens that top_k, top_p and min_p keep, found without ordering the vocabulary: by selection
// (Hoare's quickselect), in time that is linear in the tokens.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "coordinator/engine/request.h"
#include "coordinator/sampling/ranking.h"

namespace lockstep {

// Moves the kept tokens to the front, in any order, and returns their number. `mass`: the sum of
// exp(edited - the best one's) over all tokens, for top_p; unused with top_k, where it is that of
// the tokens that top_k keeps. Nothing where a sum is so close to a bound that the order in which
// it is added up may decide: then the tokens' order has to be known.
std::optional<size_t> select_kept(const SamplingParams& params, double mass,
                                  std::vector<ScoredToken>* tokens);

}  // namespace lockstep

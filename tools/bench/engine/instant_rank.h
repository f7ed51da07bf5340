// SPDX-License-Identifier: Apache-2.0
// A worker that computes nothing: it answers each Step at once, or after Timeline::compute_us, with
// candidates of the requested sizes. So all the time from its answer to the next Step is spent in
// the coordinator and the network.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "tools/bench/engine/timeline.h"

namespace lockstep::bench {

// Joins and serves until the coordinator is gone.
absl::Status run_instant_rank(const std::string& coordinator, const std::string& token,
                              Timeline& timeline);

}  // namespace lockstep::bench

// SPDX-License-Identifier: Apache-2.0
// How something went on each rank, so that all of them act in the same way.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "worker/collectives/collective.h"

namespace lockstep {

// "" if it succeeded on all ranks, else one line about the worst: "rank 1: ...". The same on every
// rank. A failed rank counts before one that waited in vain (kDeadlineExceeded). A collective call;
// its errors are `met`'s.
absl::StatusOr<std::string> share_outcome(Collective& met, const absl::Status& own);

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// All ranks learn how work went on each of them, so that all act in the same way.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "worker/collectives/collective.h"

namespace lockstep {

// `own` is the outcome on this rank. Returns the same on every rank: "" if all succeeded, else one
// line about the worst outcome: "rank 1: ...". kDeadlineExceeded (the rank only waited too long for
// others) is less bad than other errors. A collective call; its errors are those of `met`.
absl::StatusOr<std::string> share_outcome(Collective& met, const absl::Status& own);

}  // namespace lockstep

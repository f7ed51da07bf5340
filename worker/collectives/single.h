// SPDX-License-Identifier: Apache-2.0
// The collective of a rank that is alone.
#pragma once

#include <memory>

#include "worker/collectives/collective.h"

namespace lockstep {

// all_gather copies its columns to their place, all_reduce does nothing.
std::unique_ptr<Collective> single_collective();

}  // namespace lockstep

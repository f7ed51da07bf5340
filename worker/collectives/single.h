// SPDX-License-Identifier: Apache-2.0
// The collective of a group of one rank.
#pragma once

#include <memory>

#include "worker/collectives/collective.h"

namespace lockstep {

// all_gather copies the rank's columns to their place, all_reduce does nothing.
std::unique_ptr<Collective> single_collective();

}  // namespace lockstep

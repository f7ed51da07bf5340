// SPDX-License-Identifier: Apache-2.0
// The ways in which linear_tiles.cc can multiply weights that have no scales between their units.
// All give the same bits. Kernels choose by the number of rows; tests and benchmarks run each for
// any number.
#pragma once

#include <cstdint>

#include "worker/kernels/kernel.h"

namespace lockstep {

// kChunks: linear.h's loops. The others: tile_nest.h's, with either TileOrder.
enum class TileWay : uint8_t { kChunks, kTwoRegisters, kFourRegisters };

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// exact_exp of many numbers at once.
#pragma once

#include <span>

namespace lockstep {

// Replaces each value by its exact_exp, with the same bits, several at a time if the machine can.
void exact_exps(std::span<double> values);

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// exact_exp of many numbers at once.
#pragma once

#include <span>

namespace lockstep {

// Each becomes its exact_exp, with the same bits, several at a time where the machine can.
void exact_exps(std::span<double> values);

}  // namespace lockstep

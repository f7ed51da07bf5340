// SPDX-License-Identifier: Apache-2.0
// What passes may know of an operator without knowing which it is: one row each, in the order of
// base/op.h.
#pragma once

#include <array>
#include <cstdint>

#include "base/check.h"
#include "base/op.h"

namespace lockstep {

struct OperatorTraits {
  int inputs = 0;      // Values.
  int parameters = 0;  // At least.
  int parameters_max = 0;
  int outputs = 0;
  bool effect = false;    // Is never dead: writes state, gives results or meets other ranks.
  bool in_place = false;  // Its first output may lie where one of its inputs lies.
};

constexpr std::array<OperatorTraits, kOpCount> kOperatorTraits = {{
    {},                                                                 // none
    {.inputs = 0, .parameters = 1, .parameters_max = 1, .outputs = 1},  // embed
    {.inputs = 1, .parameters = 1, .parameters_max = 2, .outputs = 1},  // linear
    {.inputs = 1, .parameters = 1, .parameters_max = 1, .outputs = 1},  // rms_norm
    {.inputs = 1, .parameters = 1, .parameters_max = 1, .outputs = 1},  // head_norm
    {.inputs = 0, .outputs = 1},                                        // rope_table
    {.inputs = 2, .outputs = 1, .in_place = true},                      // rope
    {.inputs = 3, .outputs = 1, .effect = true},                        // attention
    {.inputs = 1, .outputs = 1, .in_place = true},                      // silu
    {.inputs = 2, .outputs = 1, .in_place = true},                      // mul
    {.inputs = 2, .outputs = 1, .in_place = true},                      // add
    {.inputs = 2, .outputs = 1, .in_place = true},                      // gated
    {.inputs = 2,
     .parameters = 1,
     .parameters_max = 1,
     .outputs = 2,
     .in_place = true},                                             // add_norm
    {.inputs = 1, .outputs = 1},                                    // cast
    {.inputs = 1, .outputs = 1},                                    // select_rows
    {.inputs = 1, .outputs = 0, .effect = true},                    // top_candidates
    {.inputs = 1, .outputs = 1, .effect = true, .in_place = true},  // all_reduce
    {.inputs = 1, .outputs = 1, .effect = true},                    // all_gather
    {.inputs = 1, .outputs = 1},                                    // columns
}};

inline const OperatorTraits& operator_traits(Op op) {
  LOCKSTEP_CHECK(static_cast<int>(op) < kOpCount);
  return kOperatorTraits[static_cast<int>(op)];
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// The naive operators that have a file of their own; for the table of naive_operators.cc.
#pragma once

#include <vector>

#include "tests/support/naive_operators.h"

namespace lockstep::naive {

using Args = OperatorArgs;
using Matrices = std::vector<Matrix>;

// naive_attention.cc
Matrices rope_table(const Args& a);
Matrices rope(const Args& a);
Matrices attention(const Args& a);
Matrices rope_attention(const Args& a);

// naive_experts.cc
Matrices route(const Args& a);
Matrices expert_linear(const Args& a);
Matrices expert_scale(const Args& a);
Matrices combine(const Args& a);

// naive_heads.cc
Matrices head_linear(const Args& a);
Matrices join_heads(const Args& a);
Matrices head_dot(const Args& a);
Matrices expand_heads(const Args& a);

// naive_recurrent.cc
Matrices conv(const Args& a);
Matrices delta_rule(const Args& a);
Matrices decay(const Args& a);
Matrices recurrence(const Args& a);
Matrices shift(const Args& a);
Matrices wkv(const Args& a);

}  // namespace lockstep::naive

// SPDX-License-Identifier: Apache-2.0
// The checks that a schema row's fields do not express, one function per operator that needs them.
// For operators/ alone.
#pragma once

#include "operators/schema/schema.h"

namespace lockstep {

// Whether rows of type `x` can be multiplied by a matrix of type `weight`.
bool check_product(DType x, DType weight, Finding& finding);

bool check_embed(const OperatorCall& call, Finding& finding);
bool check_linear(const OperatorCall& call, Finding& finding);
bool check_gated_linear(const OperatorCall& call, Finding& finding);
bool check_norm(const OperatorCall& call, Finding& finding);  // rms_norm, add_norm, layer_norm
bool check_head_norm(const OperatorCall& call, Finding& finding);
bool check_rope_table(const OperatorCall& call, Finding& finding);
bool check_rope(const OperatorCall& call, Finding& finding);
bool check_attention(const OperatorCall& call, Finding& finding);
bool check_rope_attention(const OperatorCall& call, Finding& finding);
bool check_map(const OperatorCall& call, Finding& finding);  // map, gated, gated_linear
bool check_top_candidates(const OperatorCall& call, Finding& finding);
bool check_all_gather(const OperatorCall& call, Finding& finding);
bool check_columns(const OperatorCall& call, Finding& finding);
bool check_position_scale(const OperatorCall& call, Finding& finding);
bool check_route(const OperatorCall& call, Finding& finding);
bool check_expert_linear(const OperatorCall& call, Finding& finding);
bool check_expert_scale(const OperatorCall& call, Finding& finding);
bool check_combine(const OperatorCall& call, Finding& finding);
bool check_conv(const OperatorCall& call, Finding& finding);
bool check_delta_rule(const OperatorCall& call, Finding& finding);
bool check_decay(const OperatorCall& call, Finding& finding);
bool check_broadcast(const OperatorCall& call, Finding& finding);
bool check_shift(const OperatorCall& call, Finding& finding);
bool check_recurrence(const OperatorCall& call, Finding& finding);
bool check_wkv(const OperatorCall& call, Finding& finding);
bool check_head_dot(const OperatorCall& call, Finding& finding);
bool check_expand_heads(const OperatorCall& call, Finding& finding);
bool check_head_linear(const OperatorCall& call, Finding& finding);
bool check_join_heads(const OperatorCall& call, Finding& finding);

}  // namespace lockstep

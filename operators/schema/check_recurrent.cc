// SPDX-License-Identifier: Apache-2.0
// Checks of operators that store the state of each sequence in a state block, and of their helpers.
#include "operators/attribute_fields.h"
#include "operators/limits.h"
#include "operators/schema/checks.h"

namespace lockstep {
namespace {

// Checks that the attributes name a state block of this shape. In a graph, which has no states, any
// attributes pass.
bool check_block(const OperatorCall& c, int64_t rows, int64_t cols, Finding& f) {
  if (c.program == nullptr) return true;
  return f.within("state", state_of(c.attrs), 0, c.program->state_count - 1) &&
         f.equal("rows of the block", c.block.rows, rows) &&
         f.equal("columns of the block", c.block.cols, cols);
}

// Checks that delta_rule and recurrence share: the sizes of heads, and the state block, which has
// one matrix per value head.
bool check_state_heads(const OperatorCall& c, Finding& f) {
  const RecurrenceAttrs& a = c.attrs.recurrence();
  const bool shapes = f.equal("columns of q", c.in[0].cols, a.key_heads * a.k_dim) &&
                      f.equal("columns of k", c.in[1].cols, a.key_heads * a.k_dim) &&
                      f.equal("columns of v", c.in[2].cols, a.heads * a.v_dim) &&
                      f.equal("columns of the output", c.out[0].cols, a.heads * a.v_dim) &&
                      f.equal("key_head_of count", a.key_head_of.size, a.heads);
  if (!shapes) return false;
  for (const int32_t key_head : a.key_head_of) {
    if (!f.within("key_head_of", key_head, 0, a.key_heads - 1)) return false;
  }
  return check_block(c, a.heads * a.k_dim, a.v_dim, f);
}

}  // namespace

bool check_conv(const OperatorCall& c, Finding& f) {
  const OperandShape &x = c.in[0], &weight = c.in[1], &bias = c.in[2];
  const int64_t taps = c.attrs.conv().taps;
  return f.equal("columns of the weight", weight.cols, x.cols * taps) &&
         (!bias.present || f.equal("columns of the bias", bias.cols, x.cols)) &&
         check_block(c, taps - 1, x.cols, f);
}

bool check_delta_rule(const OperatorCall& c, Finding& f) {
  const RecurrenceAttrs& a = c.attrs.recurrence();
  return check_state_heads(c, f) && f.equal("columns of decay", c.in[3].cols, a.heads) &&
         f.equal("columns of rate", c.in[4].cols, a.heads) &&
         f.holds(a.eps > 0, "eps must be above 0");
}

bool check_recurrence(const OperatorCall& c, Finding& f) {
  if (!check_state_heads(c, f)) return false;
  const RecurrenceAttrs& attrs = c.attrs.recurrence();
  const int64_t rows = attrs.heads * attrs.k_dim;  // The matrices of all heads.
  const OperandShape &decay = c.in[3], &a = c.in[4], &b = c.in[5];
  return (decay.cols == attrs.heads || f.equal("columns of decay", decay.cols, rows)) &&
         f.holds(a.present == b.present, "a and b must be given together") &&
         (!a.present ||
          (f.equal("columns of a", a.cols, rows) && f.equal("columns of b", b.cols, rows)));
}

bool check_shift(const OperatorCall& c, Finding& f) { return check_block(c, 1, c.in[0].cols, f); }

bool check_wkv(const OperatorCall& c, Finding& f) {
  const int64_t cols = c.in[0].cols;
  return f.equal("columns of decay", c.in[2].cols, cols) &&
         f.equal("columns of first", c.in[3].cols, cols) && check_block(c, kWkvRows, cols, f);
}

bool check_broadcast(const OperatorCall& c, Finding& f) {
  return f.equal("columns of the output", c.out[0].cols, c.in[0].cols);
}

bool check_decay(const OperatorCall& c, Finding& f) {
  return f.equal("columns of the weight", c.in[1].cols, c.in[0].cols);
}

}  // namespace lockstep

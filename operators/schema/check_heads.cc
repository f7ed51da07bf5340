// SPDX-License-Identifier: Apache-2.0
// Checks of operators that process each head separately.
#include "operators/limits.h"
#include "operators/schema/checks.h"

namespace lockstep {
namespace {

// Checks that all heads have the same number of columns.
bool whole_heads(const char* what, int64_t cols, int64_t heads, Finding& f) {
  return heads == 0 ? f.equal(what, cols, 0) : f.equal(what, cols % heads, 0);
}

}  // namespace

bool check_head_linear(const OperatorCall& c, Finding& f) {
  const int64_t heads = c.attrs.heads().heads, in_dim = c.attrs.heads().in_dim;
  return whole_heads("columns of x outside whole heads", c.in[0].cols, heads, f) &&
         whole_heads("columns of the output outside whole heads", c.out[0].cols, heads, f) &&
         f.within("in_dim", in_dim, 1, heads == 0 ? kMaxStateDim : c.in[0].cols / heads) &&
         f.equal("columns of the weight", c.in[1].cols, in_dim * c.out[0].cols);
}

bool check_join_heads(const OperatorCall& c, Finding& f) {
  const int64_t heads = c.attrs.heads().heads;
  return whole_heads("columns of x outside whole heads", c.in[0].cols, heads, f) &&
         whole_heads("columns of y outside whole heads", c.in[1].cols, heads, f) &&
         f.equal("columns of the output", c.out[0].cols, c.in[0].cols + c.in[1].cols);
}

bool check_head_dot(const OperatorCall& c, Finding& f) {
  const int64_t heads = c.attrs.heads().heads;
  return whole_heads("columns of x outside whole heads", c.in[0].cols, heads, f) &&
         whole_heads("columns of v outside whole heads", c.in[3].cols, heads, f) &&
         f.equal("columns of y", c.in[1].cols, c.in[0].cols) &&
         f.equal("columns of the weight", c.in[2].cols, c.in[0].cols) &&
         f.equal("columns of the output", c.out[0].cols, c.in[3].cols);
}

bool check_expand_heads(const OperatorCall& c, Finding& f) {
  const int64_t heads = c.attrs.heads().heads, out_dim = c.attrs.heads().out_dim;
  return f.within("out_dim", out_dim, 1, kMaxStateDim) &&
         f.equal("columns of x", c.in[0].cols, heads) &&
         f.equal("columns of the output", c.out[0].cols, heads * out_dim);
}

}  // namespace lockstep

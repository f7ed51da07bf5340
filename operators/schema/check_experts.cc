// SPDX-License-Identifier: Apache-2.0
// Checks of route, expert_linear, expert_scale and combine: the numbers of rows per token in their
// row domains must agree.
#include "base/numbers/quantization.h"
#include "operators/limits.h"
#include "operators/schema/checks.h"

namespace lockstep {
namespace {

bool check_choice(const RouteAttrs& a, int64_t experts, Finding& f) {
  return f.within("experts of route", experts, 1, kMaxExperts) &&
         f.within("chosen", a.chosen, 1, experts) && f.within("groups", a.groups, 1, experts) &&
         f.equal("experts outside whole groups", experts % a.groups, 0) &&
         f.within("chosen_groups", a.chosen_groups, 1, a.groups) &&
         f.within("chosen", a.chosen, 1, experts / a.groups * a.chosen_groups) &&
         f.holds(!a.best_two || experts / a.groups >= 2,
                 "groups must have two experts where best_two is set") &&
         f.holds(!a.sigmoid || !a.softmax_of_chosen,
                 "sigmoid and softmax_of_chosen must not both be set");
}

}  // namespace

bool check_route(const OperatorCall& c, Finding& f) {
  const OperandShape &scores = c.in[0], &bias = c.in[1], &ids = c.out[0], &weights = c.out[1];
  const int64_t chosen = c.attrs.route().chosen;
  return check_choice(c.attrs.route(), scores.cols, f) &&
         (!bias.present || f.equal("columns of the bias", bias.cols, scores.cols)) &&
         f.equal("columns of the ids", ids.cols, 1) &&
         f.equal("columns of the weights", weights.cols, 1) &&
         f.equal("rows of the scores for each token", scores.rows_each, 1) &&
         f.equal("rows of the ids for each token", ids.rows_each, chosen) &&
         f.equal("rows of the weights for each token", weights.rows_each, chosen);
}

bool check_expert_linear(const OperatorCall& c, Finding& f) {
  const OperandShape &x = c.in[0], &ids = c.in[1], &weight = c.in[2], &bias = c.in[3];
  const int64_t experts = c.attrs.expert().experts, cols = c.out[0].cols;
  return f.equal("matrices of the weight", weight.matrices, experts) &&
         f.equal("columns of the weight", weight.cols, x.cols) &&
         f.equal("rows of the weight", weight.rows, experts * cols) &&
         (!bias.present || (f.equal("matrices of the bias", bias.matrices, experts) &&
                            f.equal("columns of the bias", bias.cols, experts * cols))) &&
         f.equal("columns of the ids", ids.cols, 1) &&
         f.within("rows of the ids for each token", ids.rows_each, 1, kMaxRowsEach) &&
         f.equal("rows of the output for each token", c.out[0].rows_each, ids.rows_each) &&
         (x.rows_each == ids.rows_each || f.equal("rows of x for each token", x.rows_each, 1)) &&
         check_product(x.dtype, weight.dtype, f);
}

bool check_expert_scale(const OperatorCall& c, Finding& f) {
  return f.within("columns of the weight", c.in[2].cols, 1, kMaxExperts) &&
         f.equal("columns of the ids", c.in[1].cols, 1);
}

bool check_combine(const OperatorCall& c, Finding& f) {
  const OperandShape &x = c.in[0], &weights = c.in[1], &out = c.out[0];
  return f.equal("columns of the weights", weights.cols, 1) &&
         f.equal("columns of the output", out.cols, x.cols) &&
         f.within("rows of x for each token", x.rows_each, 1, kMaxRowsEach) &&
         f.equal("rows of the weights for each token", weights.rows_each, x.rows_each) &&
         f.equal("rows of the output for each token", out.rows_each, 1);
}

}  // namespace lockstep

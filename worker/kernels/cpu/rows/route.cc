// SPDX-License-Identifier: Apache-2.0
// route: computes experts and their weights from scores, each row by itself, with sums in the order
// of experts.
// expert_scale: multiplies each row by the scale of the expert that it is routed to.
// combine: the weighted sum of a token's routes, in their order, column by column.
#include "worker/kernels/choose_experts.h"
#include "worker/kernels/cpu/chunks.h"
#include "worker/kernels/cpu/vector/vec.h"
#include "worker/kernels/cpu/vector/vec_math.h"
#include "worker/kernels/kernel.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

constexpr int64_t kScoreCost = 64;  // An expert's score costs as much as this many elements.

// The softmax over the chosen entries, or over all if `picks` is null. Other entries become
// meaningless.
void softmax(float* x, int64_t count, const Pick* picks) {
  float largest = -kInfinity, sum = 0;
  const auto counts = [&](int64_t i) { return picks == nullptr || picks[i] == Pick::kChosen; };
  for (int64_t i = 0; i < count; ++i) largest = counts(i) && x[i] > largest ? x[i] : largest;
  for (int64_t i = 0; i < count; i += Vec::kLanes) {
    exp(Vec::load(x + i, count - i) - Vec::splat(largest)).store(x + i, count - i);
  }
  for (int64_t i = 0; i < count; ++i) sum = counts(i) ? sum + x[i] : sum;
  for (int64_t i = 0; i < count; ++i) x[i] = x[i] / sum;
}

void route_row(const KernelArgs& args, int64_t r, RouteRow& row) {
  const TensorView &x = args.in[0], &bias = args.in[1], &ids = args.out[0], &out = args.out[1];
  const RouteAttrs& attrs = args.attrs.route();
  const Vec one = Vec::splat(1.0f);
  const float* from = x.row<float>(r);
  for (int64_t i = 0; i < x.cols; i += Vec::kLanes) {
    const Vec score = Vec::load(from + i, x.cols - i);
    const Vec kept = attrs.sigmoid ? one / (one + exp(Vec::zero() - score)) : score;
    kept.store(row.scores + i, x.cols - i);
  }
  const bool softmax_of_all = !attrs.sigmoid && !attrs.softmax_of_chosen;
  if (softmax_of_all) softmax(row.scores, x.cols, nullptr);
  for (int64_t i = 0; i < x.cols; i += Vec::kLanes) {
    Vec key = Vec::load(row.scores + i, x.cols - i);
    if (bias.data != nullptr) key = key + Vec::load(bias.row<float>(0) + i, x.cols - i);
    key.store(row.keys + i, x.cols - i);
  }
  choose_experts(attrs, x.cols, row);
  if (attrs.softmax_of_chosen) softmax(row.scores, x.cols, row.experts);
  list_chosen(attrs, x.cols, row, ids.row<int32_t>(r * attrs.chosen), ids.stride,
              out.row<float>(r * attrs.chosen), out.stride);
}

}  // namespace

const char* route(const KernelArgs& args) {
  for_rows(*args.parallel, args.in[0].rows, args.in[0].cols * kScoreCost, [&](int64_t r) {
    RouteRow row;
    route_row(args, r, row);
  });
  return nullptr;
}

const char* expert_scale(const KernelArgs& args) {
  const TensorView &x = args.in[0], &ids = args.in[1], &weight = args.in[2], &out = args.out[0];
  for_rows(*args.parallel, x.rows, x.cols, [&](int64_t r) {
    const int32_t id = *ids.row<int32_t>(r);
    const Vec scale = Vec::splat(id >= 0 && id < weight.cols ? weight.row<float>(0)[id] : 0.0f);
    const float* from = x.row<float>(r);
    float* to = out.row<float>(r);
    for (int64_t i = 0; i < x.cols; i += Vec::kLanes) {
      (Vec::load(from + i, x.cols - i) * scale).store(to + i, x.cols - i);
    }
  });
  return nullptr;
}

const char* combine(const KernelArgs& args) {
  const TensorView &x = args.in[0], &weights = args.in[1], &out = args.out[0];
  const int64_t each = out.rows > 0 ? x.rows / out.rows : 0;
  for_rows(*args.parallel, out.rows, out.cols * (each + 1), [&](int64_t r) {
    const int64_t first = r * each;
    float* to = out.row<float>(r);
    for (int64_t i = 0; i < out.cols; i += Vec::kLanes) {
      const int64_t left = out.cols - i;
      Vec sum = Vec::load(x.row<float>(first) + i, left) * Vec::splat(*weights.row<float>(first));
      for (int64_t route = first + 1; route < first + each; ++route) {
        sum = fma(Vec::load(x.row<float>(route) + i, left), Vec::splat(*weights.row<float>(route)),
                  sum);
      }
      sum.store(to + i, left);
    }
  });
  return nullptr;
}

}  // namespace lockstep::LOCKSTEP_ISA

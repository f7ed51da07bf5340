// SPDX-License-Identifier: Apache-2.0
// route: there is one block per row. Its threads compute the scores; then one thread computes the
// sums and chooses the experts (choose_experts.h). combine: the weighted sum of a token's routes,
// in their order. The bits are the CPU's.
#include "worker/kernels/choose_experts.h"
#include "worker/kernels/cuda/scalar.h"

namespace lockstep::LOCKSTEP_TARGET {
namespace {

// The sum over the chosen entries, or over all if `picks` is null.
__device__ float sum_of(const float* x, int64_t count, const Pick* picks) {
  float sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (picks == nullptr || picks[i] == Pick::kChosen) sum = sum + x[i];
  }
  return sum;
}

__device__ float max_of(const float* x, int64_t count, const Pick* picks) {
  float largest = -kInfinity;
  for (int64_t i = 0; i < count; ++i) {
    if (picks == nullptr || picks[i] == Pick::kChosen) largest = x[i] > largest ? x[i] : largest;
  }
  return largest;
}

// All threads call it; scores are complete before and after.
__device__ void softmax(float* x, int64_t count, const Pick* picks) {
  const float largest = max_of(x, count, picks);
  __syncthreads();
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) x[i] = exp_of(x[i] - largest);
  __syncthreads();
  const float sum = sum_of(x, count, picks);
  __syncthreads();
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) x[i] = x[i] / sum;
  __syncthreads();
}

__global__ void route_kernel(TensorView x, TensorView bias, TensorView ids, TensorView weights,
                             RouteAttrs attrs) {
  __shared__ RouteRow row;
  const int64_t r = blockIdx.x;
  const float* from = x.row<float>(r);
  for (int64_t i = threadIdx.x; i < x.cols; i += blockDim.x) {
    row.scores[i] = attrs.sigmoid ? 1.0f / (1.0f + exp_of(0.0f - from[i])) : from[i];
  }
  __syncthreads();
  if (!attrs.sigmoid && !attrs.softmax_of_chosen) softmax(row.scores, x.cols, nullptr);
  for (int64_t i = threadIdx.x; i < x.cols; i += blockDim.x) {
    row.keys[i] = row.scores[i] + (bias.data == nullptr ? 0.0f : bias.row<float>(0)[i]);
  }
  __syncthreads();
  if (threadIdx.x == 0) choose_experts(attrs, x.cols, row);
  __syncthreads();
  if (attrs.softmax_of_chosen) softmax(row.scores, x.cols, row.experts);
  if (threadIdx.x != 0) return;
  list_chosen(attrs, x.cols, row, ids.row<int32_t>(r * attrs.chosen), ids.stride,
              weights.row<float>(r * attrs.chosen), weights.stride);
}

__global__ void expert_scale_kernel(TensorView x, TensorView ids, TensorView weight,
                                    TensorView out) {
  const int64_t row = blockIdx.x, step = int64_t{gridDim.y} * blockDim.x;
  const int32_t id = *ids.row<int32_t>(row);
  const float scale = id >= 0 && id < weight.cols ? weight.row<float>(0)[id] : 0.0f;
  for (int64_t i = int64_t{blockIdx.y} * blockDim.x + threadIdx.x; i < out.cols; i += step) {
    out.row<float>(row)[i] = x.row<float>(row)[i] * scale;
  }
}

__global__ void combine_kernel(TensorView x, TensorView weights, TensorView out, int64_t each) {
  const int64_t row = blockIdx.x, step = int64_t{gridDim.y} * blockDim.x, first = row * each;
  for (int64_t i = int64_t{blockIdx.y} * blockDim.x + threadIdx.x; i < out.cols; i += step) {
    float sum = x.row<float>(first)[i] * *weights.row<float>(first);
    for (int64_t route = first + 1; route < first + each; ++route) {
      sum = fmaf(x.row<float>(route)[i], *weights.row<float>(route), sum);
    }
    out.row<float>(row)[i] = sum;
  }
}

}  // namespace

const char* route(const KernelArgs& args) {
  const TensorView& x = args.in[0];
  return launch(route_kernel, {x.rows, 1}, 4 * kWarp, args.queue, x, args.in[1], args.out[0],
                args.out[1], args.attrs.route());
}

const char* expert_scale(const KernelArgs& args) {
  const TensorView& out = args.out[0];
  return launch(expert_scale_kernel, row_grid(out.rows, out.cols), kRowThreads, args.queue,
                args.in[0], args.in[1], args.in[2], out);
}

const char* combine(const KernelArgs& args) {
  const TensorView &x = args.in[0], &out = args.out[0];
  if (out.rows <= 0) return nullptr;
  return launch(combine_kernel, row_grid(out.rows, out.cols), kRowThreads, args.queue, x,
                args.in[1], out, x.rows / out.rows);
}

}  // namespace lockstep::LOCKSTEP_TARGET

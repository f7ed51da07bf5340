// SPDX-License-Identifier: Apache-2.0
// map: f(x), where f is a function of operators/function.h; gated: f(gate) * up; mul: x * y;
// add: x + y; lerp: x + (y - x) * weight; decay: e^(-e^weight * x); cast: float32 to bfloat16 or
// float16; broadcast: copies. Threads stride over elements, in place or not, with the CPU's bits.
#include "worker/kernels/cuda/functions.h"

namespace lockstep::LOCKSTEP_TARGET {
namespace {

struct Mul {
  __device__ static float of(float x, float y) { return x * y; }
};
struct Same {
  __device__ static float of(float x, float) { return x; }
};

// f(x), times y if there is one.
__global__ void function_kernel(TensorView x, TensorView y, TensorView out, Function function,
                                float factor) {
  const int64_t row = blockIdx.x, step = int64_t{gridDim.y} * blockDim.x;
  const float* a = x.row<float>(row);
  const float* b = y.data == nullptr ? nullptr : y.row<float>(row);
  for (int64_t i = int64_t{blockIdx.y} * blockDim.x + threadIdx.x; i < x.cols; i += step) {
    const float found = function_of(function, factor, a[i]);
    set_element(out, row, i, b == nullptr ? found : found * b[i]);
  }
}

const char* apply(const KernelArgs& args) {
  const TensorView& x = args.in[0];
  return launch(function_kernel, row_grid(x.rows, x.cols), kRowThreads, args.queue, x, args.in[1],
                args.out[0], args.attrs.map().function, args.attrs.map().factor);
}

__global__ void decay_kernel(TensorView x, TensorView weight, TensorView out) {
  const int64_t row = blockIdx.x, step = int64_t{gridDim.y} * blockDim.x;
  const float *a = x.row<float>(row), *w = weight.row<float>(0);
  float* to = out.row<float>(row);
  for (int64_t i = int64_t{blockIdx.y} * blockDim.x + threadIdx.x; i < x.cols; i += step) {
    to[i] = exp_of(0.0f - exp_of(w[i]) * a[i]);
  }
}

__global__ void lerp_kernel(TensorView x, TensorView y, TensorView weight, TensorView out) {
  const int64_t row = blockIdx.x, step = int64_t{gridDim.y} * blockDim.x;
  const float *a = x.row<float>(row), *b = y.row<float>(row), *w = weight.row<float>(row);
  for (int64_t i = int64_t{blockIdx.y} * blockDim.x + threadIdx.x; i < x.cols; i += step) {
    set_element(out, row, i, fmaf(b[i] - a[i], w[i], a[i]));
  }
}

__global__ void broadcast_kernel(TensorView weight, TensorView out) {
  const int64_t row = blockIdx.x, step = int64_t{gridDim.y} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.y} * blockDim.x + threadIdx.x; i < out.cols; i += step) {
    out.row<float>(row)[i] = weight.row<float>(0)[i];
  }
}

template <typename F, typename Out>
__global__ void by_element_kernel(TensorView x, TensorView y, TensorView out) {
  const int64_t row = blockIdx.x, step = int64_t{gridDim.y} * blockDim.x;
  const float* a = x.row<float>(row);
  const float* b = y.data == nullptr ? nullptr : y.row<float>(row);
  Out* to = out.row<Out>(row);
  for (int64_t i = int64_t{blockIdx.y} * blockDim.x + threadIdx.x; i < x.cols; i += step) {
    narrow(F::of(a[i], b == nullptr ? 0.0f : b[i]), to[i]);
  }
}

template <typename F>
const char* by_element(const KernelArgs& args) {
  const TensorView &x = args.in[0], &out = args.out[0];
  const auto kernel = out.dtype == DType::kBF16  ? by_element_kernel<F, BF16>
                      : out.dtype == DType::kF16 ? by_element_kernel<F, F16>
                                                 : by_element_kernel<F, float>;
  return launch(kernel, row_grid(x.rows, x.cols), kRowThreads, args.queue, x, args.in[1], out);
}

}  // namespace

const char* map(const KernelArgs& args) { return apply(args); }
const char* decay(const KernelArgs& args) {
  const TensorView& x = args.in[0];
  return launch(decay_kernel, row_grid(x.rows, x.cols), kRowThreads, args.queue, x, args.in[1],
                args.out[0]);
}
const char* lerp(const KernelArgs& args) {
  const TensorView& x = args.in[0];
  return launch(lerp_kernel, row_grid(x.rows, x.cols), kRowThreads, args.queue, x, args.in[1],
                args.in[2], args.out[0]);
}
const char* broadcast(const KernelArgs& args) {
  const TensorView& out = args.out[0];
  return launch(broadcast_kernel, row_grid(out.rows, out.cols), kRowThreads, args.queue, args.in[0],
                out);
}
const char* mul(const KernelArgs& args) { return by_element<Mul>(args); }
const char* add(const KernelArgs& args) { return by_element<Sum>(args); }
const char* gated(const KernelArgs& args) { return apply(args); }
const char* cast(const KernelArgs& args) { return by_element<Same>(args); }

}  // namespace lockstep::LOCKSTEP_TARGET

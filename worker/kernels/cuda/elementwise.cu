// SPDX-License-Identifier: Apache-2.0
// silu: x * sigmoid(x); mul: x * y; add: x + y; gated: silu(gate) * up; cast: float32 to bfloat16
// or float16. Threads stride over elements, in place or not; the CPU's bits.
#include "worker/kernels/cuda/scalar.h"

namespace lockstep::LOCKSTEP_TARGET {
namespace {

struct Silu {
  __device__ static float of(float x, float) { return silu_of(x); }
};
struct Mul {
  __device__ static float of(float x, float y) { return x * y; }
};
struct Gated {
  __device__ static float of(float gate, float up) { return silu_of(gate) * up; }
};
struct Same {
  __device__ static float of(float x, float) { return x; }
};

template <typename F, typename Out>
__global__ void map_kernel(TensorView x, TensorView y, TensorView out) {
  const int64_t row = blockIdx.x, step = int64_t{gridDim.y} * blockDim.x;
  const float* a = x.row<float>(row);
  const float* b = y.data == nullptr ? nullptr : y.row<float>(row);
  Out* to = out.row<Out>(row);
  for (int64_t i = int64_t{blockIdx.y} * blockDim.x + threadIdx.x; i < x.cols; i += step) {
    narrow(F::of(a[i], b == nullptr ? 0.0f : b[i]), to[i]);
  }
}

template <typename F, typename Out>
const char* map(const KernelArgs& args) {
  const TensorView& x = args.in[0];
  return launch(map_kernel<F, Out>, row_grid(x.rows, x.cols), kRowThreads, args.queue, x,
                args.in[1], args.out[0]);
}

}  // namespace

const char* silu(const KernelArgs& args) { return map<Silu, float>(args); }
const char* mul(const KernelArgs& args) { return map<Mul, float>(args); }
const char* add(const KernelArgs& args) { return map<Sum, float>(args); }
const char* gated(const KernelArgs& args) { return map<Gated, float>(args); }
const char* cast(const KernelArgs& args) {
  return args.out[0].dtype == DType::kF16 ? map<Same, F16>(args) : map<Same, BF16>(args);
}

}  // namespace lockstep::LOCKSTEP_TARGET

// SPDX-License-Identifier: Apache-2.0
// silu: x * sigmoid(x); mul: x * y; add: x + y; gated: silu(gate) * up; cast: float32 to bfloat16
// or float16. An element a thread at a time, in place or not; the CPU's bits.
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
void map(const KernelArgs& args) {
  const TensorView& x = args.in[0];
  launch(map_kernel<F, Out>, row_grid(x.rows, x.cols), kRowThreads, args.queue, x, args.in[1],
         args.out[0]);
}

}  // namespace

void silu(const KernelArgs& args) { map<Silu, float>(args); }
void mul(const KernelArgs& args) { map<Mul, float>(args); }
void add(const KernelArgs& args) { map<Sum, float>(args); }
void gated(const KernelArgs& args) { map<Gated, float>(args); }
void cast(const KernelArgs& args) {
  if (args.out[0].dtype == DType::kF16) {
    map<Same, F16>(args);
  } else {
    map<Same, BF16>(args);
  }
}

}  // namespace lockstep::LOCKSTEP_TARGET

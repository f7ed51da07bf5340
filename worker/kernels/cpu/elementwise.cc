// SPDX-License-Identifier: Apache-2.0
// silu: x * sigmoid(x); mul: x * y; add: x + y; gated: silu(gate) * up; cast: float32 to bfloat16.
// Lane by lane, in place or not.
#include "worker/kernels/cpu/chunks.h"
#include "worker/kernels/cpu/vec.h"
#include "worker/kernels/cpu/vec_math.h"
#include "worker/kernels/kernel.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

template <typename Out, typename F>
const char* map_one(const KernelArgs& args, const F& f) {
  const TensorView &x = args.in[0], &out = args.out[0];
  for_rows(*args.parallel, x.rows, x.cols, [&](int64_t r) {
    const float* a = x.row<float>(r);
    Out* to = out.row<Out>(r);
    for (int64_t i = 0; i < x.cols; i += Vec::kLanes) {
      f(Vec::load(a + i, x.cols - i)).store(to + i, x.cols - i);
    }
  });
  return nullptr;
}

template <typename F>
const char* map_two(const KernelArgs& args, const F& f) {
  const TensorView &x = args.in[0], &y = args.in[1], &out = args.out[0];
  for_rows(*args.parallel, x.rows, x.cols, [&](int64_t r) {
    const float *a = x.row<float>(r), *b = y.row<float>(r);
    float* to = out.row<float>(r);
    for (int64_t i = 0; i < x.cols; i += Vec::kLanes) {
      const int64_t left = x.cols - i;
      f(Vec::load(a + i, left), Vec::load(b + i, left)).store(to + i, left);
    }
  });
  return nullptr;
}

}  // namespace

const char* silu(const KernelArgs& args) {
  return map_one<float>(args, [](Vec x) { return silu(x); });
}
const char* cast(const KernelArgs& args) {
  return map_one<uint16_t>(args, [](Vec x) { return x; });
}
const char* mul(const KernelArgs& args) {
  return map_two(args, [](Vec x, Vec y) { return x * y; });
}
const char* add(const KernelArgs& args) {
  return map_two(args, [](Vec x, Vec y) { return x + y; });
}
const char* gated(const KernelArgs& args) {
  return map_two(args, [](Vec gate, Vec up) { return silu(gate) * up; });
}

}  // namespace lockstep::LOCKSTEP_ISA

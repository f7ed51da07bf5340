// SPDX-License-Identifier: Apache-2.0
// map: f(x), where f is a function of operators/function.h; gated: f(gate) * up; mul: x * y;
// add: x + y; lerp: x + (y - x) * weight; decay: e^(-e^weight * x); cast: float32 to bfloat16.
// These work lane by lane, in place or not. broadcast: copies.
#include "worker/kernels/cpu/chunks.h"
#include "worker/kernels/cpu/vector/vec.h"
#include "worker/kernels/cpu/vector/vec_math.h"
#include "worker/kernels/kernel.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

template <typename Out, typename F>
const char* by_one(const KernelArgs& args, const F& f) {
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
const char* by_two(const KernelArgs& args, const F& f) {
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

// NaN stays NaN.
Vec clamp_above(Vec x, Vec bound) { return select_less(bound, x, bound, x); }
Vec clamp_below(Vec x, Vec bound) {
  const Vec min = Vec::zero() - bound;
  return select_less(x, min, min, x);
}

// Calls run(f) with the function that the attributes name.
template <typename Run>
const char* with_function(const MapAttrs& attrs, const Run& run) {
  const Vec factor = Vec::splat(attrs.factor);
  switch (attrs.function) {
    case Function::kNone:
      break;
    case Function::kSilu:
      return run([](Vec x) { return silu(x); });
    case Function::kGelu:
      return run([](Vec x) { return gelu(x); });
    case Function::kGeluTanh:
      return run([](Vec x) { return gelu_tanh(x); });
    case Function::kRelu:
      return run([](Vec x) { return relu(x); });
    case Function::kReluSquared:
      return run([](Vec x) { return relu(x) * relu(x); });
    case Function::kSigmoid:
      return run([](Vec x) { return sigmoid(x); });
    case Function::kTanh:
      return run([](Vec x) { return tanh(x); });
    case Function::kScale:
      return run([factor](Vec x) { return x * factor; });
    case Function::kCap:
      return run([factor](Vec x) { return factor * tanh(x / factor); });
    case Function::kQuickGelu:
      return run([](Vec x) { return x * sigmoid(x * Vec::splat(kQuickGeluSlope)); });
    case Function::kClamp:
      return run([factor](Vec x) { return clamp_below(clamp_above(x, factor), factor); });
    case Function::kClampAbove:
      return run([factor](Vec x) { return clamp_above(x, factor); });
    case Function::kSoftplus:
      return run([](Vec x) { return softplus(x); });
    case Function::kExp:
      return run([](Vec x) { return exp(x); });
  }
  return "no function";
}

}  // namespace

const char* map(const KernelArgs& args) {
  return with_function(args.attrs.map(), [&](const auto& f) { return by_one<float>(args, f); });
}
const char* cast(const KernelArgs& args) {
  return by_one<uint16_t>(args, [](Vec x) { return x; });
}
const char* mul(const KernelArgs& args) {
  return by_two(args, [](Vec x, Vec y) { return x * y; });
}
const char* add(const KernelArgs& args) {
  return by_two(args, [](Vec x, Vec y) { return x + y; });
}
const char* decay(const KernelArgs& args) {
  const TensorView& weight = args.in[1];
  KernelArgs of_rows = args;
  of_rows.in[1].stride = 0;  // Every row uses the same weights.
  if (weight.rows != 1) return "decay needs one row of weights";
  return by_two(of_rows, [](Vec x, Vec w) { return exp(Vec::zero() - exp(w) * x); });
}
const char* lerp(const KernelArgs& args) {
  const TensorView &x = args.in[0], &out = args.out[0];
  for_rows(*args.parallel, x.rows, x.cols, [&](int64_t r) {
    const float *a = x.row<float>(r), *b = args.in[1].row<float>(r);
    const float* weight = args.in[2].row<float>(r);
    float* to = out.row<float>(r);
    for (int64_t i = 0; i < x.cols; i += Vec::kLanes) {
      const int64_t left = x.cols - i;
      const Vec from = Vec::load(a + i, left);
      fma(Vec::load(b + i, left) - from, Vec::load(weight + i, left), from).store(to + i, left);
    }
  });
  return nullptr;
}
const char* broadcast(const KernelArgs& args) {
  const TensorView& out = args.out[0];
  for_rows(*args.parallel, out.rows, out.cols, [&](int64_t r) {
    __builtin_memcpy(out.row<float>(r), args.in[0].row<float>(0),
                     static_cast<size_t>(out.cols) * sizeof(float));
  });
  return nullptr;
}
const char* gated(const KernelArgs& args) {
  return with_function(args.attrs.map(), [&](const auto& f) {
    return by_two(args, [&f](Vec gate, Vec up) { return f(gate) * up; });
  });
}

}  // namespace lockstep::LOCKSTEP_ISA

// SPDX-License-Identifier: Apache-2.0
// Rows and weights that are floats: fma from 0 over k = 0 .. K - 1. float16 weights are widened
// when they are read. bfloat16 times bfloat16 uses dot_pairs, so denormals count as zero there.
#include "worker/kernels/cpu/linear/expert_linear.h"
#include "worker/kernels/cpu/linear/linear_units.h"
#if LOCKSTEP_LEVEL_OF(LOCKSTEP_ISA) == 1
#include "worker/kernels/cpu/linear/linear_bfloats_avx2.h"
#elif LOCKSTEP_LEVEL_OF(LOCKSTEP_ISA) == 3 || LOCKSTEP_LEVEL_OF(LOCKSTEP_ISA) == 4
#include "worker/kernels/cpu/linear/linear_bfloats_avx512.h"
#endif

namespace lockstep::LOCKSTEP_ISA {
namespace {

template <DType kWeight, typename WeightElement>
struct Floats : PlainSums {
  using Activation = float;
  using Guard = KeepDenormals;
  using Weight = WeightElement;
  using Factor = Vec;
  using Sum = Vec;
  static constexpr PanelLayout kLayout = panel_layout(kWeight);
  static constexpr int kTileRows = kTileRowsF32;
  static constexpr int64_t kAheadRows = 4;

  static void lay_out(const float* x, int64_t, std::byte* to, int64_t r, int64_t, RowValue&) {
    __builtin_memcpy(to + 4 * r, x, 4);
  }
  static Vec splat(const std::byte* x) { return Vec::splat(*reinterpret_cast<const float*>(x)); }
  static Vec multiply(Vec weight, Vec x, Vec sum) { return fma(x, weight, sum); }
};

#if LOCKSTEP_LEVEL_OF(LOCKSTEP_ISA) == 1
using BFloatFormat = NarrowBFloats;
#elif LOCKSTEP_LEVEL_OF(LOCKSTEP_ISA) == 3 || LOCKSTEP_LEVEL_OF(LOCKSTEP_ISA) == 4
using BFloatFormat = WideBFloats;
#else
struct BFloats : PlainSums {
  using Activation = uint16_t;
  using Guard = FlushDenormals;
  using Weight = uint16_t;
  using Factor = Pairs;
  using Sum = Vec;
  static constexpr PanelLayout kLayout = panel_layout(DType::kBF16);
  static constexpr int kTileRows = kTileRowsBF16;
  static constexpr int64_t kAheadRows = 5;

  static void lay_out(const uint16_t* x, int64_t count, std::byte* to, int64_t r, int64_t,
                      RowValue&) {
    const uint16_t pair[2] = {count > 1 ? x[1] : uint16_t{0}, x[0]};
    __builtin_memcpy(to + 4 * r, pair, sizeof(pair));
  }
  static Pairs splat(const std::byte* x) {
    return Pairs::splat(reinterpret_cast<const uint16_t*>(x));
  }
  static Vec multiply(const Pairs& weight, const Pairs& x, const Vec& sum) {
    return dot_pairs(weight, x, sum);
  }
};
using BFloatFormat = Units<BFloats>;
#endif

}  // namespace

const char* linear_f32(const KernelArgs& args) {
  return linear<Units<Floats<DType::kF32, float>>>(args);
}
const char* linear_f16(const KernelArgs& args) {
  return linear<Units<Floats<DType::kF16, Half>>>(args);
}
const char* linear_bf16(const KernelArgs& args) { return linear<BFloatFormat>(args); }
const char* expert_linear_f32(const KernelArgs& args) {
  return expert_linear<Units<Floats<DType::kF32, float>>>(args);
}
const char* expert_linear_bf16(const KernelArgs& args) { return expert_linear<BFloatFormat>(args); }

}  // namespace lockstep::LOCKSTEP_ISA

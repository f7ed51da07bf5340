// SPDX-License-Identifier: Apache-2.0
// Numeric classes: kernels of one class give the same bits on all machines. A program names the
// class of its group.
#pragma once

#include <optional>
#include <string_view>

namespace lockstep {

inline constexpr char kCpuClass[] = "f32.v1";  // Every processor can compute in it.
inline constexpr char kAmxClass[] = "amx.v1";  // Like kCpuClass, except for bfloat16 weights.
// A GPU's class is one of these two names, then "@" and Device::kind(), which has the facts on
// which the kernels' bits depend: "cuda.exact.v1@sm_90x132.cublas_13.1.0". In the exact class, a
// row's bits do not depend on the other rows. In the fast class they may, and kernels are chosen by
// speed.
inline constexpr char kCudaExactClass[] = "cuda.exact.v1";
inline constexpr char kCudaFastClass[] = "cuda.fast.v1";

constexpr bool is_fast_class(std::string_view name) {
  return name.substr(0, name.find('@')) == kCudaFastClass;
}
constexpr bool is_cuda_class(std::string_view name) {
  return name.substr(0, name.find('@')) == kCudaExactClass || is_fast_class(name);
}

// The class in which workers of both classes can compute; nullopt if there is none.
constexpr std::optional<std::string_view> common_class(std::string_view a, std::string_view b) {
  const auto is_cpu = [](std::string_view c) { return c == kCpuClass || c == kAmxClass; };
  if (a == b) return a;
  if (is_cpu(a) && is_cpu(b)) return kCpuClass;
  return std::nullopt;
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// Helpers for the tests of kernels: random matrices, and tolerances. A matrix owns exactly its
// bytes, so that AddressSanitizer finds an access beyond the last lane.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "base/numbers/float16.h"
#include "operators/schema/schema.h"
#include "tests/support/reference/reference.h"
#include "tests/worker/kernels/tables.h"
#include "worker/kernels/find.h"
#include "worker/kernels/kernel.h"

namespace lockstep {

inline constexpr uint32_t kTestSeed = 7;

// A matrix of exactly rows * stride elements on the heap.
class Matrix {
 public:
  Matrix(int64_t rows, int64_t cols, DType dtype = DType::kF32, int64_t stride = -1)
      : bytes_(static_cast<size_t>(rows * (stride < 0 ? cols : stride) * dtype_bytes(dtype))),
        data_(new std::byte[bytes_]) {
    view_ = {data_.get(), rows, cols, stride < 0 ? cols : stride, dtype};
    std::memset(data_.get(), 0xff, bytes_);  // NaN in every floating-point type.
  }
  static Matrix random(int64_t rows, int64_t cols, uint32_t seed, DType dtype = DType::kF32,
                       int64_t stride = -1) {
    Matrix m(rows, cols, dtype, stride);
    std::mt19937 generator(kTestSeed * 1000003u + seed);
    std::normal_distribution<float> normal(0, 1);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) reference::set_element(m.view_, r, c, normal(generator));
    }
    return m;
  }
  Matrix copy() const {
    Matrix m(view_.rows, view_.cols, view_.dtype, view_.stride);
    std::memcpy(m.data_.get(), data_.get(), bytes_);
    return m;
  }
  const TensorView& view() const { return view_; }
  float at(int64_t row, int64_t col) const { return reference::element(view_, row, col); }
  // True if nothing was written, not even into the gaps of a stride.
  bool is_untouched() const {
    return std::all_of(data_.get(), data_.get() + bytes_,
                       [](std::byte byte) { return byte == std::byte{0xff}; });
  }

 private:
  size_t bytes_;
  std::unique_ptr<std::byte[]> data_;
  TensorView view_;
};

// Expects the same bits in all columns of all rows, but not in the gaps of a stride.
inline void expect_same_bits(const TensorView& found, const TensorView& wanted,
                             const std::string& what) {
  ASSERT_EQ(found.rows, wanted.rows);
  ASSERT_EQ(found.cols, wanted.cols);
  for (int64_t r = 0; r < found.rows; ++r) {
    for (int64_t c = 0; c < found.cols; ++c) {
      const float a = reference::element(found, r, c), b = reference::element(wanted, r, c);
      ASSERT_EQ(std::bit_cast<uint32_t>(a), std::bit_cast<uint32_t>(b))
          << what << " at " << r << ", " << c << ": " << a << " and " << b;
    }
  }
}

inline void expect_close(const TensorView& found, const TensorView& wanted, double tolerance,
                         const std::string& what) {
  for (int64_t r = 0; r < wanted.rows; ++r) {
    for (int64_t c = 0; c < wanted.cols; ++c) {
      const double a = reference::element(found, r, c), b = reference::element(wanted, r, c);
      ASSERT_NEAR(a, b, tolerance * (1 + std::abs(b))) << what << " at " << r << ", " << c;
    }
  }
}

// Sets a factor if the function has one.
inline MapAttrs map_attrs(Function function) {
  return {.function = function, .factor = has_factor(function) ? 0.7f : 0};
}

// The attributes of an operator that computes every row separately.
inline OperatorAttrs row_attrs(Op op, int64_t head_dim, Function function, bool centred = false) {
  const AttrsKind kind = schema_of(op).attrs;
  if (kind == AttrsKind::kMap) return map_attrs(function);
  if (kind == AttrsKind::kNone) return {};
  EXPECT_EQ(kind, AttrsKind::kNorm) << op_name(op) << ": give its attributes values here";
  if (kind != AttrsKind::kNorm) return OperatorAttrs(kind);
  return NormAttrs{.eps = 1e-5f, .head_dim = head_dim, .centred = centred};
}

// The kernels under test for one operator.
inline std::vector<KernelEntry> kernels_of(Op op) {
  std::vector<KernelEntry> found = kernels_under_test();
  std::erase_if(found, [op](const KernelEntry& entry) { return entry.op != op; });
  return found;
}

// The kernel's name in the names and messages of tests.
inline void PrintTo(const KernelEntry& kernel, std::ostream* stream) { *stream << kernel.name; }

inline std::string kernel_name(const testing::TestParamInfo<KernelEntry>& info) {
  return info.param.name;
}

// The kernel whose bits `kernel` promises: the portable one for the same types.
inline const KernelEntry& portable_of(const KernelEntry& kernel) {
  if (!has_cpu_bits(kernel)) return kernel;
  return *find_kernel(cpu_kernels(), kernel.op, kernel.weight, kernel.activation, Isa::kPortable);
}

}  // namespace lockstep

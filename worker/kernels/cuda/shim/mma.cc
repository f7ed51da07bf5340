// SPDX-License-Identifier: Apache-2.0
// Operations on a warp's matrices: each thread gives its part of the matrices to the others, and
// computes or takes its part of the result.
#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/numbers/float16.h"
#include "worker/kernels/cuda/shim/shim.h"
#include "worker/kernels/cuda/shim/tensor_core.h"

namespace lockstep::shim {
namespace {

constexpr size_t kRowBytes = 16;  // 8 numbers.

int lane() { return static_cast<int>(threadIdx.x % 32); }

// A thread's part of A, rows g and g + 8, and of B.
struct Operands {
  Factors<4> rows[2];
  Factors<4> column;
};
static_assert(sizeof(Operands) <= kMaxGivenBytes);

const Operands& operands_of(int lane) { return *static_cast<const Operands*>(given(lane)); }

void give_row(const void* row) {
  LOCKSTEP_CHECK(reinterpret_cast<uintptr_t>(row) % kRowBytes == 0);
  give(row, kRowBytes);
}

const char* row_of(int matrix, int row) {
  return static_cast<const char*>(given(matrix * 8 + row));
}

// a * b + c rounded once: the intermediate float32 is rounded to odd, so that the second rounding,
// to far fewer bits, gives the right result.
uint16_t bf16_of_fma(float a, float b, float c) {
  const double product = static_cast<double>(a) * b, addend = c;
  const double sum = product + addend;
  const double of_addend = sum - product;
  const double lost = (product - (sum - of_addend)) + (addend - of_addend);
  const auto near = static_cast<float>(sum);
  const double missing = (sum - static_cast<double>(near)) + lost;
  const auto bits = std::bit_cast<uint32_t>(near);
  const bool exact = !(missing < 0 || missing > 0);  // Also for NaN.
  if (exact || bits % 2 == 1) return float_to_bf16(near);
  return float_to_bf16(std::nextafter(near, missing > 0 ? INFINITY : -INFINITY));
}

}  // namespace

uint32_t fma_pairs(uint32_t a, uint32_t b, uint32_t c) {
  const auto half = [&](int bits) {
    const auto of = [&](uint32_t pair) {
      return bf16_to_float(static_cast<uint16_t>(pair >> bits));
    };
    return static_cast<uint32_t>(bf16_of_fma(of(a), of(b), of(c))) << bits;
  };
  return half(0) | half(16);
}

void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                  const Format& format) {
  const auto set_pair = [&](Factors<4>& to, int at, uint32_t word) {
    to.set(at, format.widen(static_cast<uint16_t>(word)), format.min_exponent);
    to.set(at + 1, format.widen(static_cast<uint16_t>(word >> 16)), format.min_exponent);
  };
  Operands mine;
  for (int word = 0; word < 4; ++word) set_pair(mine.rows[word % 2], word / 2 * 2, a[word]);
  set_pair(mine.column, 0, b0);
  set_pair(mine.column, 2, b1);
  give(&mine, sizeof(mine));
  const int g = lane() / 4, t = lane() % 4;
  StepFactors rows[2], columns[2];
  for (int part = 0; part < 4; ++part) {
    for (int i = 0; i < 2; ++i) {
      rows[i].set_part(part, operands_of(4 * g + part).rows[i]);
      columns[i].set_part(part, operands_of(4 * (2 * t + i) + part).column);
    }
  }
  for (int i = 0; i < 4; ++i) c[i] = add_step(rows[i / 2], columns[i % 2], c[i]);
}

void load_matrices(uint32_t (&to)[4], const void* row) {
  give_row(row);
  for (int matrix = 0; matrix < 4; ++matrix) {
    std::memcpy(&to[matrix], row_of(matrix, lane() / 4) + lane() % 4 * 4, 4);
  }
}

void load_matrices_transposed(uint32_t (&to)[4], const void* row) {
  give_row(row);
  for (int matrix = 0; matrix < 4; ++matrix) {
    uint16_t pair[2];
    for (int i = 0; i < 2; ++i) {
      std::memcpy(&pair[i], row_of(matrix, lane() % 4 * 2 + i) + lane() / 4 * 2, 2);
    }
    std::memcpy(&to[matrix], pair, 4);
  }
}

}  // namespace lockstep::shim

// SPDX-License-Identifier: Apache-2.0
// A warp's matrices: each thread gives the others what it has of them, and computes or takes what
// it gets.
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "worker/kernels/cuda/shim/shim.h"

namespace lockstep::shim {
namespace {

constexpr size_t kRowBytes = 16;  // 8 numbers.

int lane() { return static_cast<int>(threadIdx.x % 32); }

// A thread's part of A and B as float32: [word][half].
struct Operands {
  float a[4][2];
  float b[2][2];
};

const Operands& operands_of(int lane) { return *static_cast<const Operands*>(given(lane)); }

void give_row(const void* row) {
  LOCKSTEP_CHECK(reinterpret_cast<uintptr_t>(row) % kRowBytes == 0);
  give(row, kRowBytes);
}

const char* row_of(int matrix, int row) {
  return static_cast<const char*>(given(matrix * 8 + row));
}

}  // namespace

void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                  float (*widen)(uint16_t bits)) {
  const auto split = [&](uint32_t word, float(&to)[2]) {
    to[0] = widen(static_cast<uint16_t>(word));
    to[1] = widen(static_cast<uint16_t>(word >> 16));
  };
  Operands mine;
  for (int i = 0; i < 4; ++i) split(a[i], mine.a[i]);
  split(b0, mine.b[0]);
  split(b1, mine.b[1]);
  give(&mine, sizeof(mine));
  const int g = lane() / 4, t = lane() % 4;
  for (int k = 0; k < 16; ++k) {
    const int owner = k % 8 / 2, word = k / 8;
    const Operands& row = operands_of(4 * g + owner);
    for (int i = 0; i < 4; ++i) {
      const Operands& col = operands_of(4 * (2 * t + i % 2) + owner);
      c[i] = std::fma(row.a[2 * word + i / 2][k % 2], col.b[word][k % 2], c[i]);
    }
  }
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

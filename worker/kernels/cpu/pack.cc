// SPDX-License-Identifier: Apache-2.0
#include "worker/kernels/cpu/pack.h"

#include <algorithm>

#include "base/float16.h"

namespace lockstep::cpu {
namespace {

constexpr int64_t kDepthEach = 16;  // A cache line of every source row at a time.

void convert(float value, float& to) { to = value; }
void convert(float value, uint16_t& to) { to = float_to_bf16(value); }

template <typename T>
int64_t panel_bytes(int64_t rows, int64_t cols) {
  return (rows + kPackRows - 1) / kPackRows * kPackRows * cols * static_cast<int64_t>(sizeof(T));
}

template <typename T>
void pack_panels(const PackArgs& args) {
  for (int64_t begin = args.row_begin; begin < args.row_end; begin += kPackRows) {
    const int64_t rows = std::min(kPackRows, args.row_end - begin);
    const float* source = args.source + (begin - args.row_begin) * args.source_stride;
    T* panel = static_cast<T*>(args.packed) + begin * args.cols;
    for (int64_t depth = 0; depth < args.cols; depth += kDepthEach) {
      const int64_t depth_end = std::min(args.cols, depth + kDepthEach);
      for (int64_t r = 0; r < rows; ++r) {
        const float* row = source + r * args.source_stride;
        for (int64_t k = depth; k < depth_end; ++k) convert(row[k], panel[k * kPackRows + r]);
      }
      for (int64_t k = depth; k < depth_end; ++k) {
        std::fill(panel + k * kPackRows + rows, panel + (k + 1) * kPackRows, T{0});
      }
    }
  }
}

template <typename T>
void pack_rows(const PackArgs& args) {
  for (int64_t r = args.row_begin; r < args.row_end; ++r) {
    const float* source = args.source + (r - args.row_begin) * args.source_stride;
    T* to = static_cast<T*>(args.packed) + r * args.cols;
    for (int64_t k = 0; k < args.cols; ++k) convert(source[k], to[k]);
  }
}

}  // namespace

int64_t panel_bytes_f32(int64_t rows, int64_t cols) { return panel_bytes<float>(rows, cols); }
int64_t panel_bytes_bf16(int64_t rows, int64_t cols) { return panel_bytes<uint16_t>(rows, cols); }
void pack_panels_f32(const PackArgs& args) { pack_panels<float>(args); }
void pack_panels_bf16(const PackArgs& args) { pack_panels<uint16_t>(args); }

int64_t row_bytes_f32(int64_t rows, int64_t cols) { return rows * cols * 4; }
int64_t row_bytes_bf16(int64_t rows, int64_t cols) { return rows * cols * 2; }
void pack_rows_f32(const PackArgs& args) { pack_rows<float>(args); }
void pack_rows_bf16(const PackArgs& args) { pack_rows<uint16_t>(args); }

}  // namespace lockstep::cpu

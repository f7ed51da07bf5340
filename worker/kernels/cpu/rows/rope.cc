// SPDX-License-Identifier: Apache-2.0
// Rotates every pair (a, b) of a head's rotary_dim columns from `offset` on by its row's angle:
// a' = a cos - b sin, b' = b cos + a sin. Pairs are (i, i + rotary_dim / 2), or (2i, 2i + 1)
// if interleaved. The rest of a head is copied. The table's row is rotary_dim / 2 cosines, then
// rotary_dim / 2 sines.
#include "worker/kernels/cpu/chunks.h"
#include "worker/kernels/cpu/vector/vec.h"
#include "worker/kernels/kernel.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

void rotate_halves(const float* x, const float* table, float* y, int64_t half) {
  for (int64_t i = 0; i < half; i += Vec::kLanes) {
    const int64_t left = half - i;
    const Vec a = Vec::load(x + i, left), b = Vec::load(x + half + i, left);
    const Vec cos = Vec::load(table + i, left), sin = Vec::load(table + half + i, left);
    (a * cos - b * sin).store(y + i, left);
    (b * cos + a * sin).store(y + half + i, left);
  }
}

void rotate_pairs(const float* x, const float* table, float* y, int64_t half) {
  constexpr float kSigns[Vec::kLanes] = {-1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1};
  const Vec signs = Vec::load(kSigns);
  for (int64_t i = 0; i < half; i += Vec::kLanes / 2) {
    const int64_t left = half - i;
    const Vec pairs = Vec::load(x + 2 * i, 2 * left);
    const Vec cos = Vec::load_twice(table + i, left), sin = Vec::load_twice(table + half + i, left);
    (pairs * cos + swap_neighbours(pairs) * (signs * sin)).store(y + 2 * i, 2 * left);
  }
}

}  // namespace

const char* rope(const KernelArgs& args) {
  const TensorView &x = args.in[0], &table = args.in[1], &out = args.out[0];
  const RopeAttrs& attrs = args.attrs.rope();
  const int64_t dim = attrs.head_dim, rotary = attrs.rotary_dim, offset = attrs.offset;
  for_rows(*args.parallel, x.rows, x.cols, [&](int64_t r) {
    const float* cos_sin = table.row<float>(r);
    for (int64_t head = 0; head + dim <= x.cols; head += dim) {
      const float* from = x.row<float>(r) + head;
      float* to = out.row<float>(r) + head;
      if (attrs.interleaved) {
        rotate_pairs(from + offset, cos_sin, to + offset, rotary / 2);
      } else {
        rotate_halves(from + offset, cos_sin, to + offset, rotary / 2);
      }
      if (to == from) continue;
      for (int64_t i = 0; i < offset; ++i) to[i] = from[i];
      for (int64_t i = offset + rotary; i < dim; ++i) to[i] = from[i];
    }
  });
  return nullptr;
}

}  // namespace lockstep::LOCKSTEP_ISA

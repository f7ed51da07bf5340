// SPDX-License-Identifier: Apache-2.0
// head_linear: each head's columns of a row times the head's matrix. If the matrix is [in, out],
// each output starts at 0 and adds the columns of x in order by fma. If it is [out, in], each
// output has sixteen partial sums, in the order of the columns. These are then added in the order
// of sum() in vec.h. A thread reads a part of a head's matrix once for a few rows at a time.
// head_dot: the sum of x * y * weight over each head, in sixteen partial sums as above, times v.
// join_heads, expand_heads: copies.
#include "worker/kernels/cpu/chunks.h"
#include "worker/kernels/cpu/vector/vec.h"
#include "worker/kernels/kernel.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

constexpr int64_t kTileRows = 4;
constexpr int64_t kColumns = 4 * Vec::kLanes;  // Columns of one task.

struct HeadJob {
  const TensorView& x;
  const TensorView& out;
  int64_t x_dim;   // Columns of a head of x.
  int64_t in_dim;  // The number of columns, from the first one, that are multiplied.
  int64_t out_dim;
  bool transposed;
  const float* weight;

  // Computes columns [begin, end) of a head for kRows rows from `row` on.
  template <int kRows>
  void run(int64_t head, int64_t row, int64_t begin, int64_t end) const {
    const float* matrix = weight + head * in_dim * out_dim;
    const float* from[kRows];
    float* to[kRows];
    for (int r = 0; r < kRows; ++r) {
      from[r] = x.row<float>(row + r) + head * x_dim;
      to[r] = out.row<float>(row + r) + head * out_dim;
    }
    transposed ? by_rows<kRows>(matrix, from, to, begin, end)
               : by_columns<kRows>(matrix, from, to, begin, end);
  }

  template <int kRows>
  void by_columns(const float* matrix, const float* const (&from)[kRows], float* const (&to)[kRows],
                  int64_t begin, int64_t end) const {
    for (int64_t c = begin; c < end; c += Vec::kLanes) {
      Vec sums[kRows];
      for (Vec& sum : sums) sum = Vec::zero();
      for (int64_t k = 0; k < in_dim; ++k) {
        const Vec factor = Vec::load(matrix + k * out_dim + c, end - c);
        for (int r = 0; r < kRows; ++r) sums[r] = fma(Vec::splat(from[r][k]), factor, sums[r]);
      }
      for (int r = 0; r < kRows; ++r) sums[r].store(to[r] + c, end - c);
    }
  }

  template <int kRows>
  void by_rows(const float* matrix, const float* const (&from)[kRows], float* const (&to)[kRows],
               int64_t begin, int64_t end) const {
    for (int64_t c = begin; c < end; ++c) {
      const float* factors = matrix + c * in_dim;
      Vec sums[kRows];
      for (Vec& sum : sums) sum = Vec::zero();
      for (int64_t k = 0; k < in_dim; k += Vec::kLanes) {
        const Vec factor = Vec::load(factors + k, in_dim - k);
        for (int r = 0; r < kRows; ++r) {
          sums[r] = fma(Vec::load(from[r] + k, in_dim - k), factor, sums[r]);
        }
      }
      for (int r = 0; r < kRows; ++r) to[r][c] = sum(sums[r]);
    }
  }

  void run_rows(int64_t head, int64_t begin, int64_t end) const {
    int64_t row = 0;
    for (; row + kTileRows <= out.rows; row += kTileRows) run<kTileRows>(head, row, begin, end);
    for (; row < out.rows; ++row) run<1>(head, row, begin, end);
  }
};

}  // namespace

const char* head_linear(const KernelArgs& args) {
  const TensorView &x = args.in[0], &out = args.out[0];
  const int64_t heads = args.attrs.heads().heads;
  if (heads <= 0 || out.rows <= 0) return nullptr;
  const HeadJob job = {x,
                       out,
                       x.cols / heads,
                       args.attrs.heads().in_dim,
                       out.cols / heads,
                       args.attrs.heads().transposed,
                       args.in[1].row<float>(0)};
  const int64_t pieces = (job.out_dim + kColumns - 1) / kColumns;
  for_each(*args.parallel, heads * pieces, [&](int64_t index) {
    const int64_t begin = index % pieces * kColumns;
    job.run_rows(index / pieces, begin, min(begin + kColumns, job.out_dim));
  });
  return nullptr;
}

const char* join_heads(const KernelArgs& args) {
  const TensorView &x = args.in[0], &y = args.in[1], &out = args.out[0];
  const int64_t heads = args.attrs.heads().heads;
  if (heads <= 0) return nullptr;
  const int64_t first = x.cols / heads, second = y.cols / heads;
  for_rows(*args.parallel, out.rows, out.cols, [&](int64_t r) {
    float* to = out.row<float>(r);
    for (int64_t head = 0; head < heads; ++head, to += first + second) {
      const auto bytes = [](int64_t count) { return static_cast<size_t>(count) * sizeof(float); };
      __builtin_memcpy(to, x.row<float>(r) + head * first, bytes(first));
      __builtin_memcpy(to + first, y.row<float>(r) + head * second, bytes(second));
    }
  });
  return nullptr;
}

const char* head_dot(const KernelArgs& args) {
  const TensorView &x = args.in[0], &v = args.in[3], &out = args.out[0];
  const int64_t heads = args.attrs.heads().heads;
  if (heads <= 0) return nullptr;
  const int64_t dim = x.cols / heads, v_dim = v.cols / heads;
  for_rows(*args.parallel, out.rows, x.cols + out.cols, [&](int64_t r) {
    for (int64_t head = 0; head < heads; ++head) {
      const float* a = x.row<float>(r) + head * dim;
      const float* b = args.in[1].row<float>(r) + head * dim;
      const float* weight = args.in[2].row<float>(r) + head * dim;
      Vec sums = Vec::zero();
      for (int64_t i = 0; i < dim; i += Vec::kLanes) {
        const int64_t left = dim - i;
        sums =
            fma(Vec::load(a + i, left) * Vec::load(b + i, left), Vec::load(weight + i, left), sums);
      }
      const Vec dot = Vec::splat(sum(sums));
      const float* from = v.row<float>(r) + head * v_dim;
      float* to = out.row<float>(r) + head * v_dim;
      for (int64_t i = 0; i < v_dim; i += Vec::kLanes) {
        (dot * Vec::load(from + i, v_dim - i)).store(to + i, v_dim - i);
      }
    }
  });
  return nullptr;
}

const char* expand_heads(const KernelArgs& args) {
  const TensorView &x = args.in[0], &out = args.out[0];
  const int64_t heads = args.attrs.heads().heads;
  if (heads <= 0) return nullptr;
  const int64_t dim = out.cols / heads;
  for_rows(*args.parallel, out.rows, out.cols, [&](int64_t r) {
    for (int64_t head = 0; head < heads; ++head) {
      const Vec all = Vec::splat(x.row<float>(r)[head]);
      float* to = out.row<float>(r) + head * dim;
      for (int64_t i = 0; i < dim; i += Vec::kLanes) all.store(to + i, dim - i);
    }
  });
  return nullptr;
}

}  // namespace lockstep::LOCKSTEP_ISA

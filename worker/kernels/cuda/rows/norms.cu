// SPDX-License-Identifier: Apache-2.0
// rms_norm: out = x / sqrt(mean of x^2 + eps) * weight, over a row. add_norm: the same with x + y
// in place of x; the sum is also an output. layer_norm: out = (x - mean) / sqrt(mean of (x -
// mean)^2 + eps) * weight (+ bias), over a row. head_norm: rms_norm or layer_norm over each head of
// a row. There is one block per row or head, and its threads' sums are added in an order that
// depends on the width alone.
// A thread loads all its columns at once and keeps them in registers, so a row is read once. Rows
// with too many columns are read again, chunk by chunk.
#include "worker/kernels/cuda/rows/norm_row.h"

namespace lockstep::LOCKSTEP_TARGET {
namespace {

// A block's columns of a weight or bias, which has as many columns as x or is the same for all
// blocks; null if there is none.
__device__ const float* own_part(const TensorView& weight, const TensorView& x, int64_t begin) {
  if (weight.data == nullptr) return nullptr;
  return weight.row<float>(0) + (weight.cols == x.cols ? begin : 0);
}

// A thread's columns of a chunk of a row: number j is column first + j * kThreads. Columns beyond
// the row's width are zeros. If `row` is null, all columns are `absent`.
template <int kThreads, int kEach>
struct Columns {
  static constexpr int64_t kChunk = int64_t{kThreads} * kEach;

  float at[kEach] = {};

  __device__ void load(const float* row, int64_t first, int64_t width, float absent = 0) {
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int64_t i = first + j * kThreads;
      at[j] = row == nullptr ? absent : i < width ? row[i] : 0.0f;
    }
  }
  __device__ void add(const Columns& others) {
#pragma unroll
    for (int j = 0; j < kEach; ++j) at[j] = at[j] + others.at[j];
  }
  template <typename T>
  __device__ void store(T* row, int64_t first, int64_t width) const {
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int64_t i = first + j * kThreads;
      if (i < width) narrow(at[j], row[i]);
    }
  }
  // `to` is float32 or bfloat16.
  __device__ void store(const TensorView& to, int64_t row, int64_t begin, int64_t first,
                        int64_t width) const {
    if (to.dtype == DType::kBF16) {
      store(to.row<BF16>(row) + begin, first, width);
    } else {
      store(to.row<float>(row) + begin, first, width);
    }
  }
};

// Computes columns [blockIdx.y * width, (blockIdx.y + 1) * width) of row blockIdx.x, with
// own_part() of the weight. If there is an addend, x + addend is also stored in `total`; every
// thread reads back only what it wrote.
template <int kThreads, int kEach>
__global__ void __launch_bounds__(kThreads)
    norm_kernel(TensorView x, TensorView addend, TensorView total, TensorView weight,
                TensorView out, int64_t width, float eps) {
  using Part = Columns<kThreads, kEach>;
  const int64_t row = blockIdx.x, begin = blockIdx.y * width;
  const float* from = x.row<float>(row) + begin;
  const float* const factor = own_part(weight, x, begin);
  const bool adds = addend.data != nullptr;
  Part part, factors;
  float squares = 0;
  for (int64_t first = threadIdx.x; first < width; first += Part::kChunk) {
    part.load(from, first, width);
    factors.load(factor, first, width, 1);
    if (adds) {
      Part others;
      others.load(addend.row<float>(row) + begin, first, width);
      part.add(others);
      part.store(total.row<float>(row) + begin, first, width);
    }
#pragma unroll
    for (const float v : part.at) squares = fmaf(v, v, squares);
  }
  if (adds) from = total.row<float>(row) + begin;
  const float mean = over_block<Sum>(squares) / static_cast<float>(width);
  const float scale = 1.0f / sqrtf(mean + eps);
  for (int64_t first = threadIdx.x; first < width; first += Part::kChunk) {
    if (width > Part::kChunk) {
      part.load(from, first, width);
      factors.load(factor, first, width, 1);
    }
#pragma unroll
    for (int j = 0; j < kEach; ++j) part.at[j] = part.at[j] * scale * factors.at[j];
    part.store(out, row, begin, first, width);
  }
}

// Like norm_kernel, with the mean subtracted first.
template <int kThreads, int kEach>
__global__ void __launch_bounds__(kThreads)
    centred_norm_kernel(TensorView x, TensorView weight, TensorView bias, TensorView out,
                        int64_t width, float eps) {
  using Part = Columns<kThreads, kEach>;
  const int64_t row = blockIdx.x, begin = blockIdx.y * width;
  const float* const from = x.row<float>(row) + begin;
  Part part;
  float total = 0;
  for (int64_t first = threadIdx.x; first < width; first += Part::kChunk) {
    part.load(from, first, width);
#pragma unroll
    for (const float v : part.at) total += v;
  }
  const float mean = over_block<Sum>(total) / static_cast<float>(width);
  float squares = 0;
  for (int64_t first = threadIdx.x; first < width; first += Part::kChunk) {
    if (width > Part::kChunk) part.load(from, first, width);
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const float v = first + j * kThreads < width ? part.at[j] - mean : 0.0f;
      squares = fmaf(v, v, squares);
    }
  }
  const float variance = over_block<Sum>(squares) / static_cast<float>(width);
  const float scale = 1.0f / sqrtf(variance + eps);
  for (int64_t first = threadIdx.x; first < width; first += Part::kChunk) {
    if (width > Part::kChunk) part.load(from, first, width);
    Part factors, added;
    factors.load(own_part(weight, x, begin), first, width, 1);
    added.load(own_part(bias, x, begin), first, width);
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      part.at[j] = fmaf((part.at[j] - mean) * scale, factors.at[j], added.at[j]);
    }
    part.store(out, row, begin, first, width);
  }
}

// Calls f.operator()<threads, columns per thread>() for a width.
template <typename F>
const char* for_width(int64_t width, const F& f) {
  constexpr int kFew = norm_threads(1), kMany = norm_threads(kMaxColumns);
  if (norm_threads(width) == kFew) return f.template operator()<kFew, 8>();
  if (width <= 8 * kMany) return f.template operator()<kMany, 8>();
  if (width <= 16 * kMany) return f.template operator()<kMany, 16>();
  return f.template operator()<kMany, 32>();
}

const char* norm(const KernelArgs& args, int64_t width) {
  const TensorView& x = args.in[0];
  if (x.cols <= 0) return nullptr;
  return for_width(width, [&]<int kThreads, int kEach>() {
    return launch(norm_kernel<kThreads, kEach>, {x.rows, x.cols / width}, kThreads, args.queue, x,
                  TensorView{}, TensorView{}, args.in[1], args.out[0], width,
                  args.attrs.norm().eps);
  });
}

const char* centred_norm(const KernelArgs& args, int64_t width) {
  const TensorView& x = args.in[0];
  if (x.cols <= 0) return nullptr;
  return for_width(width, [&]<int kThreads, int kEach>() {
    return launch(centred_norm_kernel<kThreads, kEach>, {x.rows, x.cols / width}, kThreads,
                  args.queue, x, args.in[1], args.in[2], args.out[0], width, args.attrs.norm().eps);
  });
}

}  // namespace

const char* rms_norm(const KernelArgs& args) { return norm(args, args.in[0].cols); }

const char* layer_norm(const KernelArgs& args) { return centred_norm(args, args.in[0].cols); }

const char* head_norm(const KernelArgs& args) {
  const int64_t dim = args.attrs.norm().head_dim;
  return args.attrs.norm().centred ? centred_norm(args, dim) : norm(args, dim);
}

const char* add_norm(const KernelArgs& args) {
  const TensorView& x = args.in[0];
  if (x.cols <= 0) return nullptr;
  return for_width(x.cols, [&]<int kThreads, int kEach>() {
    return launch(norm_kernel<kThreads, kEach>, {x.rows, 1}, kThreads, args.queue, x, args.in[1],
                  args.out[0], args.in[2], args.out[1], x.cols, args.attrs.norm().eps);
  });
}

}  // namespace lockstep::LOCKSTEP_TARGET

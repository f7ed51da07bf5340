// SPDX-License-Identifier: Apache-2.0
// out[r][n] = sum over k of x[r][k] * weight[n][k] (+ bias[n]): one lane runs over k = 0 .. K-1 by
// fma from 0 for every output, so the bits know neither rows, tiles nor threads.
// Weights are panels of 32 columns, [N / 32][K][32], float32 or bfloat16; a tile of a few rows
// by one panel stays in registers. x is first laid out as tiles [k][row of the tile] of float32.
// For many rows a panel of bfloat16 is widened once, which changes no bit.
#include "worker/kernels/cpu/scratch.h"
#include "worker/kernels/cpu/vec.h"
#include "worker/kernels/kernel.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

constexpr int64_t kPanel = kPackRows;
constexpr int64_t kFloatBytes = sizeof(float);
// Pieces of work a thread: a fast core helps a slow one, and each still reads long streams.
constexpr int64_t kPiecesPerThread = 4;
// From so many rows on, widening a panel costs little beside using it.
constexpr int64_t kWidenRows = 64;

int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Rows cut evenly into tiles of at most `most`.
struct Tiles {
  int64_t rows;
  int64_t count;
  Tiles(int64_t row_count, int64_t most) : rows(row_count), count(ceil_div(row_count, most)) {}
  int64_t begin(int64_t tile) const { return rows * tile / count; }
};

template <int kRows, typename Weight>
void run_tile(const float* x, const Weight* panel, int64_t depth, float* out, int64_t stride,
              const float* bias, int64_t cols) {
  Vec left[kRows], right[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) left[r] = right[r] = Vec::zero();
  for (int64_t k = 0; k < depth; ++k) {
    const Vec w0 = Vec::load(panel + k * kPanel);
    const Vec w1 = Vec::load(panel + k * kPanel + Vec::kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Vec value = Vec::splat(x[k * kRows + r]);
      left[r] = fma(value, w0, left[r]);
      right[r] = fma(value, w1, right[r]);
    }
  }
  const int64_t left_cols = least(cols, Vec::kLanes), right_cols = cols - left_cols;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    float* row = out + r * stride;
    if (bias != nullptr) left[r] = left[r] + Vec::load(bias, left_cols);
    left[r].store(row, left_cols);
    if (right_cols == 0) continue;
    if (bias != nullptr) right[r] = right[r] + Vec::load(bias + Vec::kLanes, right_cols);
    right[r].store(row + Vec::kLanes, right_cols);
  }
}

template <int kRows, typename Weight>
void run_rows(int64_t rows, const float* x, const Weight* panel, int64_t depth, float* out,
              int64_t stride, const float* bias, int64_t cols) {
  if constexpr (kRows > 1) {
    if (rows < kRows) {
      return run_rows<kRows - 1>(rows, x, panel, depth, out, stride, bias, cols);
    }
  }
  run_tile<kRows>(x, panel, depth, out, stride, bias, cols);
}

float widen(float x) { return x; }
float widen(uint16_t x) { return __builtin_bit_cast(float, static_cast<uint32_t>(x) << 16); }

template <typename Activation>
void lay_out(const TensorView& x, const Tiles& tiles, float* packed, Parallel& parallel) {
  for_each(parallel, tiles.count, [&](int64_t tile) {
    const int64_t begin = tiles.begin(tile), rows = tiles.begin(tile + 1) - begin;
    float* to = packed + begin * x.cols;
    for (int64_t r = 0; r < rows; ++r) {
      const Activation* from = x.row<Activation>(begin + r);
      for (int64_t k = 0; k < x.cols; ++k) to[k * rows + r] = widen(from[k]);
    }
  });
}

// A call, once x is laid out.
struct Call {
  const TensorView& out;
  const float* x;
  const float* bias;
  int64_t depth;
  Tiles tiles;
};

// Rows of tiles [first, last) by one panel, whose first column is `col`.
template <int kRows, typename Weight>
void run_panel(const Call& call, const Weight* panel, int64_t col, int64_t first, int64_t last) {
  const float* bias = call.bias == nullptr ? nullptr : call.bias + col;
  for (int64_t tile = first; tile < last; ++tile) {
    const int64_t row = call.tiles.begin(tile);
    run_rows<kRows>(call.tiles.begin(tile + 1) - row, call.x + row * call.depth, panel, call.depth,
                    call.out.row<float>(row) + col, call.out.stride, bias,
                    least(kPanel, call.out.cols - col));
  }
}

template <typename Weight, typename Activation>
void linear(const KernelArgs& args) {
  constexpr bool kNarrow = sizeof(Weight) < sizeof(float);
  constexpr int kNarrowRows = kNarrow ? kTileRowsBF16 : kTileRowsF32;
  const TensorView& x = args.in[0];
  const int64_t depth = x.cols, cols = args.out[0].cols;
  if (x.rows <= 0 || cols <= 0) return;
  const bool widens = kNarrow && x.rows >= kWidenRows;
  const bool as_is = x.rows == 1 && sizeof(Activation) == sizeof(float);
  auto* packed = reinterpret_cast<float*>(args.scratch);
  const Call call = {args.out[0], as_is ? x.row<float>(0) : packed,
                     static_cast<const float*>(args.in[2].data), depth,
                     Tiles(x.rows, widens ? kTileRowsF32 : kNarrowRows)};
  if (!as_is) lay_out<Activation>(x, call.tiles, packed, *args.parallel);
  std::byte* panels_wide = args.scratch + align_scratch(x.rows * depth * kFloatBytes);

  const auto* weight = static_cast<const Weight*>(args.in[1].data);
  const int threads = args.parallel->threads();
  const int64_t panels = ceil_div(cols, kPanel), tiles = call.tiles.count;
  const int64_t wanted = threads > 1 ? threads * kPiecesPerThread : 1;
  const int64_t panel_pieces = least(panels, wanted);
  const int64_t tile_pieces = least(tiles, ceil_div(wanted, panel_pieces));
  for_each(*args.parallel, panel_pieces * tile_pieces, [&](int64_t piece, int thread) {
    const int64_t p = piece / tile_pieces, t = piece % tile_pieces;
    const int64_t first = tiles * t / tile_pieces, last = tiles * (t + 1) / tile_pieces;
    for (int64_t i = panels * p / panel_pieces; i < panels * (p + 1) / panel_pieces; ++i) {
      const Weight* panel = weight + i * kPanel * depth;
      if (widens) {
        auto* wide = reinterpret_cast<float*>(panels_wide + thread * panel_scratch_bytes(depth));
        for (int64_t k = 0; k < depth * kPanel; k += Vec::kLanes) {
          Vec::load(panel + k).store(wide + k);
        }
        run_panel<kTileRowsF32>(call, wide, i * kPanel, first, last);
      } else {
        run_panel<kNarrowRows>(call, panel, i * kPanel, first, last);
      }
    }
  });
}

}  // namespace

void linear_f32(const KernelArgs& args) { linear<float, float>(args); }
void linear_bf16(const KernelArgs& args) { linear<uint16_t, uint16_t>(args); }

}  // namespace lockstep::LOCKSTEP_ISA

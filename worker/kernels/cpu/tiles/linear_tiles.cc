// SPDX-License-Identifier: Apache-2.0
// linear as products of tiles (tile.h): 32 rows by a panel, two tiles of rows by two of weights, so
// that each loaded tile is used in two products. A panel's codes already have a weight tile's
// order; int4 is first unpacked to bytes, a chunk at a time for all its rows.
//
// float32 rows times codes (linear_codes.h): sums of codes are exact, and they are scaled and added
// in the order of linear_quantized.cc, so the bits are the same. A product of tiles takes 16
// cycles, and two vector instructions take one cycle. By this count linear_quantized.cc takes 12
// cycles per row for a group of 32 by a panel. Here 16 rows take 32 cycles, and each row 4 more for
// scaling. Below kMinRows both ways wait for memory, and tiles gain nothing.
//
// bfloat16 times bfloat16 is added in the order of the tile instruction, 32 elements of K per
// product; vector instructions add in another order. So tiles compute every number of rows, even
// one. A row's bits are then the same for any number of rows, even if the instruction differs from
// its description. A single row leaves most of a tile idle, and still waits for memory: 2 KiB of
// weights take 3 loads and 2 products, that is 32 to 60 cycles; at 10 GB/s they need ten times as
// long to arrive.
#include "worker/kernels/cpu/linear/expert_linear.h"
#include "worker/kernels/cpu/tiles/linear_nest.h"
#include "worker/kernels/cpu/tiles/tile_formats.h"
#include "worker/kernels/cpu/tiles/tile_ways.h"

namespace lockstep::LOCKSTEP_FEW_ROWS {
template <DType kWeight>
const char* linear_quantized(const KernelArgs& args);
template <DType kWeight>
const char* expert_linear_quantized(const KernelArgs& args);
}  // namespace lockstep::LOCKSTEP_FEW_ROWS

namespace lockstep::LOCKSTEP_ISA {
namespace {

constexpr int64_t kMinRows = 8;
// More rows are multiplied as tile_nest.h describes: for them reading weights takes less time than
// the products.
constexpr int64_t kMaxChunkRows = 64;
constexpr TileOrder kDefaultOrder = TileOrder::kTwoRegisters;

template <typename Format>
const char* linear_of_any_rows(const KernelArgs& args) {
  if (args.in[0].rows <= kMaxChunkRows) return linear<Format>(args);
  return linear_nest<Format, kDefaultOrder>(args, cuts_of<Format>(args));
}

template <TileWay kWay, typename Format>
const char* linear_by(const KernelArgs& args) {
  if constexpr (kWay == TileWay::kChunks) return linear<Format>(args);
  constexpr TileOrder kOrder =
      kWay == TileWay::kTwoRegisters ? TileOrder::kTwoRegisters : TileOrder::kFourRegisters;
  return linear_nest<Format, kOrder>(args, cuts_of<Format>(args));
}

}  // namespace

template <DType kWeight>
const char* linear_quantized(const KernelArgs& args) {
  if (args.in[0].rows < kMinRows) return LOCKSTEP_FEW_ROWS::linear_quantized<kWeight>(args);
  if constexpr (TileCodes<kWeight>::kWhole) return linear_of_any_rows<TileCodes<kWeight>>(args);
  return linear<TileCodes<kWeight>>(args);
}

// Chooses by the number of rows that an expert has on average.
template <DType kWeight>
const char* expert_linear_quantized(const KernelArgs& args) {
  if (args.out[0].rows < kMinRows * args.attrs.expert().experts) {
    return LOCKSTEP_FEW_ROWS::expert_linear_quantized<kWeight>(args);
  }
  return expert_linear<TileCodes<kWeight>>(args);
}

#define LOCKSTEP_LINEAR_QUANTIZED(KIND)                                       \
  template const char* linear_quantized<DType::KIND>(const KernelArgs& args); \
  template const char* expert_linear_quantized<DType::KIND>(const KernelArgs& args);
LOCKSTEP_EACH_QUANTIZED(LOCKSTEP_LINEAR_QUANTIZED)
#undef LOCKSTEP_LINEAR_QUANTIZED

const char* linear_bf16(const KernelArgs& args) { return linear_of_any_rows<TileBFloats>(args); }
const char* expert_linear_bf16(const KernelArgs& args) { return expert_linear<TileBFloats>(args); }

template <DType kWeight, TileWay kWay>
const char* linear_in_way(const KernelArgs& args) {
  if constexpr (kWeight == DType::kBF16) {
    return linear_by<kWay, TileBFloats>(args);
  } else {
    return linear_by<kWay, TileCodes<kWeight>>(args);
  }
}

#define LOCKSTEP_LINEAR_IN_WAY(KIND)                                                               \
  template const char* linear_in_way<DType::KIND, TileWay::kChunks>(const KernelArgs& args);       \
  template const char* linear_in_way<DType::KIND, TileWay::kTwoRegisters>(const KernelArgs& args); \
  template const char* linear_in_way<DType::KIND, TileWay::kFourRegisters>(const KernelArgs& args);
LOCKSTEP_LINEAR_IN_WAY(kBF16)
LOCKSTEP_LINEAR_IN_WAY(kQ8C)
#undef LOCKSTEP_LINEAR_IN_WAY

}  // namespace lockstep::LOCKSTEP_ISA

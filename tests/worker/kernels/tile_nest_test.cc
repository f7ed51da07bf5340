// SPDX-License-Identifier: Apache-2.0
// Tests that the ways to multiply by tiles give the same bits, on emulated tiles. The loops of
// tile_nest.h are also run with cuts that kernels choose for large products only.
#define LOCKSTEP_ISA amx_emulated
#include <limits>
#include <vector>

#include "base/system/cpu.h"
#include "tests/worker/kernels/run_on_host.h"
#include "tests/worker/kernels/weights_case.h"
#include "worker/kernels/cpu/emulated/table.h"
#include "worker/kernels/cpu/tiles/linear_nest.h"
#include "worker/kernels/cpu/tiles/tile_formats.h"

namespace lockstep {
namespace {

// The kernel that `variant` is a variant of, with the variant's function and name.
KernelEntry entry_of(const KernelVariant& variant) {
  for (KernelEntry kernel : emulated_amx_kernels()) {
    if (kernel.op != Op::kLinear || kernel.weight != variant.weight) continue;
    kernel.run = variant.run;
    kernel.name = variant.name;
    return kernel;
  }
  ADD_FAILURE() << variant.name << " has no kernel";
  return {};
}

struct Ways {
  KernelEntry chunks;                // linear.h's loops.
  std::vector<KernelEntry> in_nest;  // tile_nest.h's.
};

std::vector<Ways> all_ways() {
  std::vector<Ways> all;
  for (const KernelVariant& variant : emulated_amx_variants()) {
    const KernelEntry kernel = entry_of(variant);
    if (std::string_view(kernel.name).ends_with("_chunks")) {
      all.push_back({kernel, {}});
    } else {
      all.back().in_nest.push_back(kernel);
    }
  }
  return all;
}

void expect_equal_ways(int64_t rows, int64_t cols, int64_t depth, int threads) {
  for (const Ways& ways : all_ways()) {
    const Linear linear(ways.chunks, rows, cols, depth);
    const Matrix wanted = linear.run_kernel(ways.chunks);
    for (const KernelEntry& kernel : ways.in_nest) {
      expect_same_bits(linear.run_kernel(kernel, threads).view(), wanted.view(),
                       std::string(kernel.name) + ", " + std::to_string(rows) + " rows, " +
                           std::to_string(cols) + " columns, depth " + std::to_string(depth));
    }
  }
}

TEST(TileNestTest, EveryWayHasTheSameBitsForAnyRows) {
  ASSERT_EQ(all_ways().size(), 2u);
  for (int64_t rows = 1; rows <= 130; ++rows) {
    expect_equal_ways(rows, 33, 70, static_cast<int>(rows % 3) + 1);
  }
}

TEST(TileNestTest, EveryWayHasTheSameBitsForAnyColumnsAndDepth) {
  for (const int64_t cols : {1, 15, 16, 17, 31, 32, 64, 65, 95}) expect_equal_ways(50, cols, 65, 2);
  for (const int64_t depth : {0, 1, 2, 31, 32, 33, 63, 64, 127, 128, 129, 300}) {
    expect_equal_ways(37, 40, depth, 1);
  }
}

TEST(TileNestTest, LongRowsAreCutIntoPartsWithoutAChangeOfBits) {
  ASSERT_EQ(cut_nest(66, 70, 70, 1).parts, 2);
  ASSERT_EQ(cut_nest(132, 70, 70, 1).parts, 3);
  for (const int threads : {1, 3}) {
    expect_equal_ways(70, 70, 66 * 32 - 1, threads);  // Two parts of bfloat16.
    expect_equal_ways(70, 40, 66 * 64 - 1, threads);  // Two parts of codes.
  }
}

// A line of the caches.
struct alignas(64) Line {
  std::byte bytes[64];
};

// Runs tile_nest.h with these cuts, and scratch of the size that they need. Expects that nothing
// after it is written.
template <typename Format, amx_emulated::TileOrder kOrder>
Matrix run_cut(const Linear& linear, const KernelEntry& kernel, const NestCuts& cuts, int threads) {
  Matrix out(linear.x.view().rows, linear.weight.view().rows);
  std::vector<std::byte> packed = linear.weight.pack(kernel);
  KernelArgs args = linear.args(out);
  args.in[1].data = packed.data();
  ThreadPool pool(threads);
  args.parallel = &pool;
  const int64_t bytes = cuts.blocks * Format::kLayout.units(linear.x.view().cols) * kNestStep +
                        linear_row_value_bytes(linear.x.view().rows) + threads * cuts.sum_bytes;
  std::vector<Line> scratch(static_cast<size_t>(bytes / 64 + 2 * kNestResult / 64));
  std::memset(scratch.data(), 0xff, scratch.size() * sizeof(Line));
  args.scratch = scratch.data()->bytes;
  EXPECT_EQ((amx_emulated::linear_nest<Format, kOrder>(args, cuts)), nullptr);
  const std::byte* end = scratch.data()->bytes + bytes;
  EXPECT_TRUE(
      std::all_of(end, end + 2 * kNestResult, [](std::byte b) { return b == std::byte{0xff}; }));
  return out;
}

template <typename Format>
void expect_equal_cuts(const KernelEntry& chunks, int64_t rows, int64_t cols, int64_t depth) {
  using amx_emulated::TileOrder;
  const Linear linear(chunks, rows, cols, depth);
  const Matrix wanted = linear.run_kernel(chunks);
  const int64_t units = Format::kLayout.units(depth), blocks = (rows + 31) / 32;
  for (const int64_t row_blocks : {int64_t{1}, (blocks + 1) / 2, blocks}) {
    for (const int64_t parts : {int64_t{1}, units / 2, units}) {
      for (const int64_t columns : {1, 2}) {
        // Room for the sums of one panel and of two.
        for (const int64_t panels : {1, 2}) {
          const NestCuts cuts = {blocks, row_blocks, columns, parts, panels * blocks * kNestResult};
          const std::string what = std::to_string(row_blocks) + " row blocks, " +
                                   std::to_string(parts) + " parts, " + std::to_string(columns) +
                                   " columns, room for " + std::to_string(panels);
          expect_same_bits(
              run_cut<Format, TileOrder::kTwoRegisters>(linear, chunks, cuts, 1).view(),
              wanted.view(), what);
          expect_same_bits(
              run_cut<Format, TileOrder::kFourRegisters>(linear, chunks, cuts, 2).view(),
              wanted.view(), what + ", four registers");
        }
      }
    }
  }
}

TEST(TileNestTest, BitsDoNotDependOnHowAProductIsCut) {
  const std::vector<Ways> ways = all_ways();
  expect_equal_cuts<amx_emulated::TileBFloats>(ways[0].chunks, 100, 150, 155);
  expect_equal_cuts<amx_emulated::TileCodes<DType::kQ8C>>(ways[1].chunks, 75, 150, 310);
}

TEST(TileNestTest, EveryWayTreatsExtremeNumbersTheSame) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float special :
       {0x1.fcp127f, -0x1.fcp127f, kInfinity, -kInfinity, nan, 0x1.8p-130f, 0x1p-126f, -0.0f}) {
    for (const Ways& ways : all_ways()) {
      Linear linear(ways.chunks, 40, 33, 140);
      for (int64_t r = 0; r < 40; ++r) {
        for (int64_t k = r % 9; k < 140; k += 9) {
          reference::set_element(linear.x.view(), r, k, special);
        }
      }
      const Matrix wanted = linear.run_kernel(ways.chunks);
      for (const KernelEntry& kernel : ways.in_nest) {
        const Matrix found = linear.run_kernel(kernel);
        for (int64_t r = 0; r < 40; ++r) {
          for (int64_t c = 0; c < 33; ++c) {
            const float one = found.at(r, c), other = wanted.at(r, c);
            if (std::isnan(one) && std::isnan(other)) continue;
            ASSERT_EQ(std::bit_cast<uint32_t>(one), std::bit_cast<uint32_t>(other))
                << kernel.name << ", " << special << " in row " << r << ", column " << c;
          }
        }
      }
    }
  }
}

// An output at an address of a cache line, so that its rows may be stored past the caches.
TEST(TileNestTest, LargeOutputsAreStoredPastTheCachesWithTheSameBits) {
  constexpr int64_t kRows = 70, kCols = 3999, kStride = 4000;
  ASSERT_GT(kRows * kCols * 4, amx_emulated::kMinStreamedBytes);
  for (const Ways& ways : all_ways()) {
    const Linear linear(ways.chunks, kRows, kCols, 5);
    const Matrix wanted = linear.run_kernel(ways.chunks);
    std::vector<std::byte> packed = linear.weight.pack(ways.chunks);
    for (const KernelEntry& kernel : ways.in_nest) {
      std::vector<Line> lines(kRows * kStride / 16);
      std::memset(lines.data(), 0xff, lines.size() * sizeof(Line));
      KernelArgs args = linear.args(wanted);
      args.in[1].data = packed.data();
      args.out[0] = {lines.data(), kRows, kCols, kStride, DType::kF32};
      run_on_host(kernel, args, 2);
      expect_same_bits(args.out[0], wanted.view(), kernel.name);
      for (int64_t r = 0; r < kRows; ++r) {
        EXPECT_TRUE(std::isnan(args.out[0].row<float>(r)[kCols])) << kernel.name << " " << r;
      }
    }
  }
}

TEST(TileNestTest, EveryWayReleasesItsTileRegisters) {
  for (const KernelVariant& variant : emulated_amx_variants()) {
    const KernelEntry kernel = entry_of(variant);
    Linear(kernel, 40, 70, 100).run_kernel(kernel);
    EXPECT_FALSE(amx_emulated::emulated_tiles.configured) << kernel.name;
  }
}

TEST(TileNestTest, TheCpusTilesGiveTheBitsOfTheEmulatedOnesInEveryWay) {
  if (!machine_runs(Isa::kAmx)) {
    GTEST_SKIP() << "this CPU has no AMX, or the system refuses it: tiles are only emulated";
  }
  const std::span<const KernelVariant> native = amx_variants(), emulated = emulated_amx_variants();
  ASSERT_EQ(native.size(), emulated.size());
  for (size_t i = 0; i < native.size(); ++i) {
    const KernelEntry kernel = entry_of(emulated[i]);
    KernelEntry on_cpu = kernel;
    on_cpu.run = native[i].run;
    for (const int64_t rows : {1, 16, 17, 32, 33, 100}) {
      const Linear linear(kernel, rows, 97, 333);
      expect_same_bits(linear.run_kernel(on_cpu).view(), linear.run_kernel(kernel).view(),
                       native[i].name);
    }
  }
}

TEST(TileNestTest, CutsFitTheCacheAndLargerCallsNeedMoreScratch) {
  for (const int64_t units : {0, 1, 32, 64, 65, 128, 176, 448}) {
    for (const int64_t cols : {1, 40, 2048, 28672}) {
      for (const int threads : {1, 2, 7, 64}) {
        int64_t before = 0;
        for (const int64_t rows : {1, 32, 65, 128, 150, 224, 256, 300, 512, 700, 4096}) {
          const NestCuts cuts = cut_nest(units, rows, cols, threads);
          const int64_t depth = (units + cuts.parts - 1) / cuts.parts;
          const int64_t blocks = (cuts.blocks + cuts.row_blocks - 1) / cuts.row_blocks;
          EXPECT_LE(depth, kNestDepth);
          EXPECT_LE(blocks * depth * kNestStep, kNestCache);
          EXPECT_LE(cuts.sum_bytes, kNestSums);
          if (cuts.parts > 1) {
            EXPECT_GE(cuts.sum_bytes, blocks * kNestResult);
          }
          EXPECT_GE(cuts.sum_bytes, before)
              << units << " " << rows << " " << cols << " " << threads;
          before = cuts.sum_bytes;
        }
      }
    }
  }
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// Tests of tile kernels alone, on emulated tiles, and on the CPU's if it has them.
#define LOCKSTEP_ISA amx_emulated
#include "worker/kernels/cpu/tiles/tile.h"

#include "base/system/cpu.h"
#include "tests/worker/kernels/run_on_host.h"
#include "tests/worker/kernels/weights_case.h"
#include "worker/kernels/cpu/emulated/table.h"

namespace lockstep {
namespace {

// Leaves out expert_linear, which uses the same tiles: the struct Linear has no routes for it.
std::vector<KernelEntry> linear_only(std::vector<KernelEntry> kernels) {
  std::erase_if(kernels, [](const KernelEntry& kernel) { return kernel.op != Op::kLinear; });
  return kernels;
}

std::vector<KernelEntry> emulated_kernels() {
  return linear_only({emulated_amx_kernels().begin(), emulated_amx_kernels().end()});
}

std::vector<KernelEntry> native_kernels() {
  std::vector<KernelEntry> found;
  for (const KernelEntry& kernel : cpu_kernels()) {
    if (kernel.isa == Isa::kAmx && machine_runs(Isa::kAmx)) found.push_back(kernel);
  }
  return linear_only(found);
}

std::vector<KernelEntry> bf16_kernels() {
  std::vector<KernelEntry> found = native_kernels();
  for (const KernelEntry& kernel : emulated_kernels()) found.push_back(kernel);
  std::erase_if(found, [](const KernelEntry& kernel) { return !kernel.own_bits; });
  return found;
}

float flushed(float x) { return std::abs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }

// Adds 32 elements of K at a time, odd and even ones separately.
float sum_in_tiles(const Linear& linear, int64_t r, int64_t n) {
  const int64_t depth = linear.x.view().cols;
  float sum = 0;
  for (int64_t begin = 0; begin < depth; begin += 32) {
    float odd = 0, even = 0;
    for (int64_t k = begin; k < std::min(depth, begin + 32); ++k) {
      float& part = k % 2 == 0 ? even : odd;
      const float x = flushed(linear.x.at(r, k)), weight = flushed(linear.weight.at(n, k));
      part = flushed(std::fma(x, weight, part));
    }
    sum = flushed(sum + flushed(odd + even));
  }
  return sum;
}

void expect_sums_in_tiles(const Linear& linear) {
  for (const KernelEntry& kernel : bf16_kernels()) {
    const Matrix found = linear.run_kernel(kernel, 1, false);
    for (int64_t r = 0; r < found.view().rows; ++r) {
      for (int64_t n = 0; n < found.view().cols; ++n) {
        ASSERT_EQ(found.at(r, n), sum_in_tiles(linear, r, n))
            << kernel.name << " " << r << " " << n;
      }
    }
  }
}

TEST(TileTest, Bfloat16ProductsAreAddedInTheDocumentedOrder) {
  for (const int64_t rows : {1, 16, 17, 33}) {
    for (const int64_t depth : {1, 31, 32, 64, 700}) {
      expect_sums_in_tiles(Linear(bf16_kernels()[0], rows, 40, depth));
    }
  }
}

TEST(TileTest, TheDocumentedOrderDiffersFromThatOfVectors) {
  const Linear linear(bf16_kernels()[0], 3, 33, 700);
  const KernelEntry& vectors =
      *find_kernel(cpu_kernels(), Op::kLinear, DType::kBF16, DType::kBF16, Isa::kPortable);
  const Matrix found = linear.run_kernel(vectors, 1, false);
  int different = 0;
  for (int64_t n = 0; n < 33; ++n) different += found.at(0, n) != sum_in_tiles(linear, 0, n);
  EXPECT_GT(different, 0);
}

TEST(TileTest, Bfloat16DenormalsCountAsZero) {
  Linear linear(bf16_kernels()[0], 3, 33, 70);
  for (int64_t r = 0; r < 3; ++r) {
    for (int64_t k = 0; k < 70; ++k) {
      const float tiny = k % 3 == 0 ? 0x1.8p-130f : k % 3 == 1 ? -0x1p-120f : 0x1.4p-126f;
      reference::set_element(linear.x.view(), r, k, tiny * static_cast<float>(r + 1));
    }
  }
  expect_sums_in_tiles(linear);
}

TEST(TileTest, KernelsReleaseTheirTileRegisters) {
  for (const KernelEntry& kernel : emulated_kernels()) {
    Linear(kernel, 40, 70, 100).run_kernel(kernel);
    EXPECT_FALSE(amx_emulated::emulated_tiles.configured) << kernel.name;
  }
}

TEST(TileTest, TheCpusTilesGiveTheBitsOfTheEmulatedOnes) {
  if (!machine_runs(Isa::kAmx)) {
    GTEST_SKIP() << "this CPU has no AMX, or the system refuses it: tiles are only emulated";
  }
  for (const KernelEntry& kernel : native_kernels()) {
    for (const KernelEntry& emulated : emulated_kernels()) {
      if (emulated.weight != kernel.weight) continue;
      for (const int64_t rows : {1, 8, 16, 31, 32, 33, 100}) {
        const Linear linear(kernel, rows, 97, 333);
        expect_same_bits(linear.run_kernel(kernel).view(), linear.run_kernel(emulated).view(),
                         kernel.name);
      }
    }
  }
}

TEST(TileTest, TheShapeOfRowsMayChangeAtAnyTime) {
  amx_emulated::Tiles<64> tiles;
  int32_t sums[32][16] = {};
  for (const int64_t rows : {1, 32, 17, 16}) {
    tiles.shape(rows);
    amx_emulated::tile_load<0>(sums, 64);
    EXPECT_EQ(amx_emulated::emulated_tiles.tile[0].rows, std::min<int64_t>(rows, 16));
    EXPECT_EQ(amx_emulated::emulated_tiles.tile[2].rows, std::max<int64_t>(0, rows - 16));
  }
}

TEST(TileDeathTest, UsesThatTheCpuRefusesEndTheProgram) {
  using namespace amx_emulated;
  const auto without_shapes = [] { tile_zero<0>(); };
  const auto beyond_the_rows = [] {
    Tiles<64> tiles;
    tiles.shape(16);
    tile_zero<2>();
  };
  const auto rows_for_weights = [] {
    Tiles<32> tiles;
    tiles.shape(16);
    tile_dot<Product::kCodes, 0, kWeightTile, kRowTile>();
  };
  const auto too_many_rows = [] {
    TileConfig config;
    config.rows[0] = 17;
    config.row_bytes[0] = 64;
    tile_configure(config);
  };
  EXPECT_DEATH(without_shapes(), "");
  EXPECT_DEATH(beyond_the_rows(), "");
  EXPECT_DEATH(rows_for_weights(), "");
  EXPECT_DEATH(too_many_rows(), "");
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// The linear by wgmma, over the shim and on a GPU that has it, has the bits of the linear by
// mma.sync over the shim, for any tile.
#include "worker/kernels/cuda/hopper/linear/linear_wgmma.h"

#include <span>
#include <string>

#include "tests/worker/kernels/mma_ways.h"
#include "tests/worker/kernels/weights_case.h"
#include "tests/worker/kernels/wgmma_ways.h"

namespace lockstep {
namespace {

std::vector<Variant> variants_of(const KernelEntry& kernel) {
  return variants_in(is_on_shim(kernel) ? wgmma_shim_variants() : wgmma_variants_of(*first_gpu()),
                     kernel);
}

// The kernel over the shim that computes the same linear by mma.sync.
KernelEntry mma_of(const KernelEntry& kernel) { return by(kernel, MmaBlocks::kStream16); }

struct Shape {
  int64_t rows, cols, depth;
};
std::string text_of(const Shape& s, int tile_rows) {
  return std::to_string(s.rows) + " x " + std::to_string(s.depth) + " x " + std::to_string(s.cols) +
         " by " + std::to_string(tile_rows);
}

class LinearWgmmaKernelTest : public testing::TestWithParam<KernelEntry> {};

void expect_bits_of_mma(const KernelEntry& kernel, const Shape& s,
                        std::span<const Variant> variants) {
  const Linear linear(kernel, s.rows, s.cols, s.depth);
  const Matrix wanted = linear.run_kernel(mma_of(kernel));
  for (const Variant& variant : variants) {
    expect_same_bits(linear.run_kernel(variant.kernel).view(), wanted.view(),
                     text_of(s, variant.tile_rows));
  }
}

// The shapes are ragged in every direction: the second block of a cluster has no columns, rows fill
// a part of a tile, and units are not whole.
TEST_P(LinearWgmmaKernelTest, EveryTileHasTheBitsOfMmaSync) {
  for (const Shape& s : {Shape{1, 1, 1}, Shape{70, 150, 100}, Shape{131, 17, 40}}) {
    expect_bits_of_mma(GetParam(), s, variants_of(GetParam()));
  }
}

TEST(LinearWgmmaTest, SeveralTilesAndSlicesHaveTheBitsOfMmaSync) {
  for (const KernelEntry& kernel : wgmma_kernels("linear_wgmma_bf16_")) {
    const std::vector<Variant> variants = variants_of(kernel);
    expect_bits_of_mma(kernel, {200, 300, 33}, variants);
    for (const Shape& s : {Shape{9, 260, 1100}, Shape{20, 40, 2112}}) {
      expect_bits_of_mma(kernel, s, {variants.data(), 1});
    }
  }
}

// In one order of threads copies are late and products early, which shows a product that does not
// wait for its copy. In the other order copies are early and products late, which shows a stage
// that is filled while a product reads it.
TEST(LinearWgmmaTest, BothOrdersOfThreadsGiveTheSameBits) {
  for (const char* const name : {"linear_wgmma_f16_", "linear_wgmma_q4m_"}) {
    const KernelEntry kernel = wgmma_kernels(name).back();  // The shim's.
    const Linear linear(kernel, 130, 300, 384);  // Two tiles per cluster, more units than stages.
    shim::set_order(shim::Order::kAscending);
    const Matrix late = linear.run_kernel(variants_of(kernel)[0].kernel);
    shim::set_order(shim::Order::kDescending);
    const Matrix early = linear.run_kernel(variants_of(kernel)[0].kernel);
    expect_same_bits(early.view(), late.view(), name);
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, LinearWgmmaKernelTest,
                         testing::ValuesIn(wgmma_kernels("linear_wgmma_")), kernel_name);

class GatedWgmmaTest : public testing::TestWithParam<KernelEntry> {};

TEST_P(GatedWgmmaTest, PairsHaveTheBitsOfMmaSync) {
  const Shape s{70, 150, 100};
  const Linear linear(GetParam(), s.rows, s.cols, s.depth);
  const std::vector<std::byte> packed = linear.weight.pack(GetParam());
  const auto gated = [&](const KernelEntry& kernel, DType type) {
    Matrix out(s.rows, s.cols / 2, type, s.cols / 2 + 3);
    KernelArgs args = linear.args(out);
    args.in[1].data = const_cast<std::byte*>(packed.data());
    args.attrs = MapAttrs{.function = Function::kSilu};
    run(kernel, args);
    return out;
  };
  const Matrix wanted = gated(mma_of(GetParam()), DType::kF32);
  for (const Variant& variant : variants_of(GetParam())) {
    expect_same_bits(gated(variant.kernel, DType::kF32).view(), wanted.view(),
                     text_of(s, variant.tile_rows));
  }
  const Matrix rounded = gated(mma_of(GetParam()), DType::kBF16);
  expect_same_bits(gated(variants_of(GetParam())[0].kernel, DType::kBF16).view(), rounded.view(),
                   "bf16");
}

INSTANTIATE_TEST_SUITE_P(Kernels, GatedWgmmaTest,
                         testing::ValuesIn(wgmma_kernels("gated_linear_wgmma_")), kernel_name);

TEST(WgmmaTileRowsTest, FewRowsAndFewColumnsStayWithMmaSync) {
  EXPECT_EQ(cuda_shim::wgmma_tile_rows(DType::kBF16, 64, 4096, 132), 0);
  EXPECT_EQ(cuda_shim::wgmma_tile_rows(DType::kBF16, 128, 1024, 132), 0);
  EXPECT_EQ(cuda_shim::wgmma_tile_rows(DType::kBF16, 128, 4096, 132), 64);
}

// The fastest rows per tile on an H100 and an H200, in cases where one number was clearly the
// fastest.
TEST(WgmmaTileRowsTest, TheRuleChoosesTheTilesThatWereMeasuredAsFastest) {
  EXPECT_EQ(cuda_shim::wgmma_tile_rows(DType::kBF16, 128, 28672, 132), 128);
  EXPECT_EQ(cuda_shim::wgmma_tile_rows(DType::kBF16, 512, 4096, 132), 128);
  EXPECT_EQ(cuda_shim::wgmma_tile_rows(DType::kBF16, 1024, 6144, 132), 208);
  EXPECT_EQ(cuda_shim::wgmma_tile_rows(DType::kBF16, 2048, 4096, 132), 192);
  EXPECT_EQ(cuda_shim::wgmma_tile_rows(DType::kBF16, 4096, 4096, 132), 208);
  EXPECT_EQ(cuda_shim::wgmma_tile_rows(DType::kBF16, 8192, 28672, 132), 192);
}

}  // namespace
}  // namespace lockstep

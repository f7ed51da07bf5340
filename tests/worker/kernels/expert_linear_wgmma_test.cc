// SPDX-License-Identifier: Apache-2.0
// expert_linear by wgmma, over the shim and on a GPU that has it, has the bits of expert_linear by
// mma.sync over the shim, for any tile and any number of rows per expert.
#include "worker/kernels/cuda/hopper/linear/expert_linear_wgmma.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/worker/kernels/expert_case.h"
#include "tests/worker/kernels/wgmma_ways.h"

namespace lockstep {
namespace {

std::vector<Variant> expert_variants(const KernelEntry& kernel) {
  return variants_in(is_on_shim(kernel) ? expert_shim_variants() : expert_variants_of(*first_gpu()),
                     kernel);
}

// The kernel over the shim that computes the same product by mma.sync.
KernelEntry expert_mma(const KernelEntry& kernel) {
  for (const KernelEntry& entry : cuda_shim_kernels()) {
    const bool by_mma = std::string_view(entry.name).starts_with("expert_linear_mma_");
    if (by_mma && entry.weight == kernel.weight) return entry;
  }
  ADD_FAILURE() << "no kernel by mma.sync next to " << kernel.name;
  return kernel;
}

struct Routing {
  int64_t chosen;  // Routes of each token.
  std::vector<int64_t> counts;
  int64_t cols, depth;
};

// counts[e] routes of expert e and two routes of no expert, in a random order. `chosen` must divide
// the number of all.
std::vector<int32_t> routes_of(const Routing& s) {
  std::vector<int32_t> ids = {-1, static_cast<int32_t>(s.counts.size())};
  for (size_t e = 0; e < s.counts.size(); ++e) {
    ids.insert(ids.end(), static_cast<size_t>(s.counts[e]), static_cast<int32_t>(e));
  }
  std::shuffle(ids.begin(), ids.end(), std::mt19937(kTestSeed));
  EXPECT_EQ(std::ssize(ids) % s.chosen, 0);
  return ids;
}

ExpertCase routed_case(const KernelEntry& kernel, const Routing& s, bool routed) {
  const std::vector<int32_t> ids = routes_of(s);
  const ExpertSizes sizes{std::ssize(ids) / s.chosen, s.chosen, std::ssize(s.counts), s.cols,
                          s.depth};
  return {kernel, sizes, routed, ids};
}

void expect_bits_of_expert_mma(const Variant& variant, const Routing& s, bool routed = false,
                               bool with_bias = true) {
  const ExpertCase one = routed_case(variant.kernel, s, routed);
  const Matrix wanted = one.run_kernel(expert_mma(variant.kernel), 1, with_bias);
  const Matrix found = one.run_kernel(variant.kernel, 1, with_bias);
  expect_same_bits(found.view(), wanted.view(),
                   std::string(variant.kernel.name) + " by " + std::to_string(variant.tile_rows));
}

class ExpertLinearWgmmaKernelTest : public testing::TestWithParam<KernelEntry> {};

// Experts with no row, one row, a few rows, exactly a tile, and one row more. There are more tiles
// than clusters, so that a cluster computes several; the second block of a cluster has no columns.
TEST_P(ExpertLinearWgmmaKernelTest, AnyNumberOfRowsPerExpertHasTheBitsOfMmaSync) {
  for (const Variant& variant : expert_variants(GetParam())) {
    const int64_t tile = variant.tile_rows;
    expect_bits_of_expert_mma(variant, {1, {0, 1, 7, tile, 0, tile + 1, 0}, 17, 40});
  }
}

// The next expert's stripes follow directly on the last stripe, which is not whole. Two routes are
// of one token, so that copies of x skip back and forth.
TEST_P(ExpertLinearWgmmaKernelTest, RaggedColumnsOfEveryExpertHaveTheBitsOfMmaSync) {
  const Variant smallest = expert_variants(GetParam())[0];
  expect_bits_of_expert_mma(smallest, {2, {3, 66, 9, 0}, 150, 100});
  expect_bits_of_expert_mma(smallest, {2, {30, 6}, 129, 64}, /*routed=*/true, /*with_bias=*/false);
}

TEST_P(ExpertLinearWgmmaKernelTest, OneExpertMayHaveAllRoutes) {
  const Variant smallest = expert_variants(GetParam())[0];
  expect_bits_of_expert_mma(smallest, {1, {0, 0, 130}, 33, 70});
  expect_bits_of_expert_mma(smallest, {1, {1}, 1, 1});
}

TEST_P(ExpertLinearWgmmaKernelTest, RoutesOfNoExpertAreNotWritten) {
  const Variant smallest = expert_variants(GetParam())[0];
  const ExpertCase one(smallest.kernel, {9, 1, 2, 20, 40}, false, std::vector<int32_t>(9, 2));
  EXPECT_TRUE(one.run_kernel(smallest.kernel).is_untouched());
}

TEST(ExpertLinearWgmmaTest, SeveralTilesOfColumnsAndSlicesHaveTheBitsOfMmaSync) {
  for (const KernelEntry& kernel : wgmma_kernels("expert_linear_wgmma_bf16_")) {
    for (const Variant& variant : expert_variants(kernel)) {
      expect_bits_of_expert_mma(variant, {1, {70, 4, 230}, 300, 33});
    }
    expect_bits_of_expert_mma(expert_variants(kernel)[0], {1, {5, 3, 2}, 40, 2112});
  }
}

// The two orders of threads show a missing wait, like those of LinearWgmmaTest.
TEST(ExpertLinearWgmmaTest, BothOrdersOfThreadsGiveTheSameBits) {
  for (const char* const name : {"expert_linear_wgmma_bf16_", "expert_linear_wgmma_q8c_"}) {
    const Variant variant = expert_variants(wgmma_kernels(name).back())[0];  // The shim's.
    const ExpertCase one = routed_case(variant.kernel, {1, {90, 40, 70}, 300, 384}, false);
    shim::set_order(shim::Order::kAscending);
    const Matrix late = one.run_kernel(variant.kernel);
    shim::set_order(shim::Order::kDescending);
    const Matrix early = one.run_kernel(variant.kernel);
    expect_same_bits(early.view(), late.view(), name);
  }
}

// The table's kernel chooses wgmma here, even over the shim.
TEST(ExpertLinearWgmmaTest, TheKernelOfTheTableHasTheBitsOfMmaSync) {
  const Routing s{1, {300, 212}, 600, 40};
  for (const KernelEntry& kernel : wgmma_kernels("expert_linear_wgmma_q4_")) {
    EXPECT_GT(cuda_shim::expert_wgmma_tile_rows(kernel.weight, 512, 2, s.cols, 6), 0);
    expect_bits_of_expert_mma({0, kernel}, s);
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, ExpertLinearWgmmaKernelTest,
                         testing::ValuesIn(wgmma_kernels("expert_linear_wgmma_")), kernel_name);

TEST(ExpertWgmmaTileRowsTest, FewRowsPerExpertAndFewColumnsStayWithMmaSync) {
  const auto rows = [](int64_t routes, int64_t experts, int64_t cols) {
    return cuda_shim::expert_wgmma_tile_rows(DType::kBF16, routes, experts, cols, 132);
  };
  EXPECT_EQ(rows(64 * 128, 128, 768), 0);
  EXPECT_EQ(rows(512, 2, 384), 0);
  EXPECT_EQ(rows(100 * 64, 64, 4096), 128);
}

// More rows per expert fill larger tiles; codes have no tiles of 208 rows.
TEST(ExpertWgmmaTileRowsTest, TilesGrowWithTheRowsPerExpert) {
  for (const DType weight : {DType::kBF16, DType::kQ4}) {
    int before = 0;
    for (const int64_t each : {100, 256, 2048}) {
      const int found = cuda_shim::expert_wgmma_tile_rows(weight, each * 64, 64, 4096, 132);
      EXPECT_GE(found, before) << each;
      before = found;
    }
    EXPECT_EQ(before, weight == DType::kBF16 ? 208 : 192);
  }
}

}  // namespace
}  // namespace lockstep

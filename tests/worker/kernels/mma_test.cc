// SPDX-License-Identifier: Apache-2.0
// The fragments of a warp's matrices, compared with whole matrices by the formulas of the PTX ISA
// (6.5 to 9.0, "Matrix Fragments for mma.m16n8k16", "ldmatrix"), and asynchronous copies.
#include "worker/kernels/cuda/mma.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/worker/kernels/tensor_core_model.h"

namespace lockstep::cuda_shim {
namespace {

template <typename T>
struct Product {
  T a[16][16], b[16][8];
  float c[16][8];
};

template <typename T>
uint32_t pair(T low, T high) {
  return low.bits | static_cast<uint32_t>(high.bits) << 16;
}

// Index i of a lane's fragment counts numbers as in the ISA, not words.
int row_of_a(int group, int i) { return i % 4 < 2 ? group : group + 8; }
int col_of_a(int in_group, int i) { return in_group * 2 + i % 2 + (i < 4 ? 0 : 8); }
int row_of_b(int in_group, int i) { return in_group * 2 + i % 2 + (i < 2 ? 0 : 8); }
int row_of_c(int group, int i) { return i < 2 ? group : group + 8; }

template <typename T>
__global__ void multiply_kernel(Product<T>* product) {
  const int lane = static_cast<int>(threadIdx.x), group = lane / 4, in_group = lane % 4;
  uint32_t a[4], b[2];
  float c[4];
  for (int i = 0; i < 8; i += 2) {
    const T* row = product->a[row_of_a(group, i)];
    a[i / 2] = pair(row[col_of_a(in_group, i)], row[col_of_a(in_group, i + 1)]);
  }
  for (int i = 0; i < 4; i += 2) {
    b[i / 2] = pair(product->b[row_of_b(in_group, i)][group],
                    product->b[row_of_b(in_group, i + 1)][group]);
  }
  for (int i = 0; i < 4; ++i) c[i] = product->c[row_of_c(group, i)][in_group * 2 + i % 2];
  multiply_add<T>(c, a, b[0], b[1]);
  for (int i = 0; i < 4; ++i) product->c[row_of_c(group, i)][in_group * 2 + i % 2] = c[i];
}

template <typename T>
Product<T> random_product(uint32_t seed) {
  Product<T> product;
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0, 1);
  for (auto& row : product.a) {
    for (T& x : row) narrow(normal(generator), x);
  }
  for (auto& row : product.b) {
    for (T& x : row) narrow(normal(generator), x);
  }
  for (auto& row : product.c) {
    for (float& x : row) x = normal(generator);
  }
  return product;
}

template <typename T>
class MmaTest : public testing::Test {};
using Types = testing::Types<BF16, F16>;
TYPED_TEST_SUITE(MmaTest, Types);

TYPED_TEST(MmaTest, FragmentsFollowTheIsaAndAreAddedAsGpusDo) {
  constexpr int kMinExponent =
      std::is_same_v<TypeParam, BF16> ? kMinExponentOfBF16 : kMinExponentOfF16;
  for (uint32_t seed = 0; seed < 3; ++seed) {
    const Product<TypeParam> before = random_product<TypeParam>(seed);
    Product<TypeParam> after = before;
    ASSERT_EQ(launch(multiply_kernel<TypeParam>, {}, kWarp, nullptr, &after), nullptr);
    for (int m = 0; m < 16; ++m) {
      for (int n = 0; n < 8; ++n) {
        float a[16], b[16];
        for (int k = 0; k < 16; ++k) a[k] = widen(before.a[m][k]), b[k] = widen(before.b[k][n]);
        EXPECT_EQ(after.c[m][n], modelled_step(a, b, before.c[m][n], kMinExponent))
            << m << ", " << n;
      }
    }
  }
}

TYPED_TEST(MmaTest, APairIsRoundedLikeEachOfItsTwoNumbers) {
  for (const float x : {1.0f, -3.14159f, 1.0f + 0x1p-8f, 1.0f + 0x1.8p-8f, 0x1p-20f, -0.0f}) {
    TypeParam one, other;
    narrow(x, one);
    narrow(7 * x, other);
    EXPECT_EQ(rounded_pair<TypeParam>(x, 7 * x), pair(one, other)) << x;
  }
}

constexpr int kStride = 24;  // Rows of 8 numbers at multiples of 16 bytes, in a wider matrix.
struct Loads {
  alignas(16) uint16_t matrices[32][kStride];
  uint32_t plain[32][4], transposed[32][4];
};

__global__ void load_kernel(Loads* loads) {
  const uint16_t* row = loads->matrices[threadIdx.x];
  uint32_t words[4];
  load_matrices(words, row);
  for (int m = 0; m < 4; ++m) loads->plain[threadIdx.x][m] = words[m];
  load_matrices_transposed(words, row);
  for (int m = 0; m < 4; ++m) loads->transposed[threadIdx.x][m] = words[m];
}

TEST(MmaLoadTest, EachLaneHasTwoNeighboursOfARowOrOfAColumn) {
  Loads loads{};
  for (int r = 0; r < 32; ++r) {
    for (int c = 0; c < 8; ++c) loads.matrices[r][c] = static_cast<uint16_t>(100 * r + c);
  }
  ASSERT_EQ(launch(load_kernel, {}, kWarp, nullptr, &loads), nullptr);
  const auto at = [&](int m, int row, int col) { return BF16{loads.matrices[8 * m + row][col]}; };
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int m = 0; m < 4; ++m) {
      EXPECT_EQ(loads.plain[lane][m], pair(at(m, g, 2 * t), at(m, g, 2 * t + 1))) << lane;
      EXPECT_EQ(loads.transposed[lane][m], pair(at(m, 2 * t, g), at(m, 2 * t + 1, g))) << lane;
    }
  }
}

struct Copies {
  alignas(16) uint32_t from[3][4 * kWarp];
  uint32_t first_alone[4 * kWarp], all[3][4 * kWarp];
};

// Makes three groups of asynchronous copies. The last one copies only the first 4 bytes of each 16.
__global__ void copy_kernel(Copies* copies) {
  auto* shared = reinterpret_cast<uint32_t*>(dynamic_shared());
  const unsigned at = 4 * threadIdx.x;
  for (unsigned group = 0; group < 3; ++group) {
    copy_async(shared + group * 4 * kWarp + at, copies->from[group] + at, group < 2 ? 16 : 4);
    commit_copies();
  }
  wait_copies<2>();
  __syncthreads();
  for (unsigned i = 0; i < 4; ++i) copies->first_alone[at + i] = shared[(at + 64 + i) % 128];
  wait_copies<0>();
  __syncthreads();
  for (unsigned i = 0; i < 12; ++i)
    copies->all[i / 4][at + i % 4] = shared[i / 4 * 128 + at + i % 4];
}

Copies run_copies() {
  Copies copies{};
  for (uint32_t i = 0; i < 3 * 128; ++i) copies.from[i / 128][i % 128] = i + 1;
  EXPECT_EQ(launch(copy_kernel, {1, 1, 3 * 16 * kWarp}, kWarp, nullptr, &copies), nullptr);
  return copies;
}

TEST(MmaCopyTest, AGroupIsCopiedAfterTheWaitForIt) {
  for (const shim::Order order : {shim::Order::kAscending, shim::Order::kDescending}) {
    shim::set_order(order);
    const Copies copies = run_copies();
    for (uint32_t i = 0; i < 128; ++i) {
      EXPECT_EQ(copies.first_alone[i], (i + 64) % 128 + 1);
      EXPECT_EQ(copies.all[1][i], 128 + i + 1);
      EXPECT_EQ(copies.all[2][i], i % 4 == 0 ? 256 + i + 1 : 0) << "beyond the copied bytes";
    }
  }
}

__global__ void hasty_kernel(const uint32_t* from, uint32_t* to) {
  auto* shared = reinterpret_cast<uint32_t*>(dynamic_shared());
  copy_async(shared + 4 * threadIdx.x, from + 4 * threadIdx.x);
  commit_copies();
  wait_copies<1>();  // The right number is 0.
  to[threadIdx.x] = shared[4 * threadIdx.x];
}

TEST(MmaCopyTest, ATooShortWaitMakesResultsDependOnTheOrderOfThreads) {
  std::vector<uint32_t> to[2];
  alignas(16) const uint32_t from[4 * kWarp] = {5};
  for (const int order : {0, 1}) {
    shim::set_order(order == 0 ? shim::Order::kAscending : shim::Order::kDescending);
    to[order].resize(kWarp);
    ASSERT_EQ(launch(hasty_kernel, {1, 1, 16 * kWarp}, kWarp, nullptr, &from[0], to[order].data()),
              nullptr);
  }
  EXPECT_NE(to[0], to[1]);
}

__global__ void crooked_kernel(const uint32_t* from) { copy_async(dynamic_shared(), from + 1); }

TEST(MmaDeathTest, MisalignedCopiesAndTooMuchSharedMemoryAreBugs) {
  alignas(16) const uint32_t from[8] = {};
  EXPECT_DEATH(launch(crooked_kernel, {1, 1, 16}, kWarp, nullptr, &from[0]), "check failed");
  EXPECT_DEATH(launch(crooked_kernel, {1, 1, kMaxSharedBytes + 16}, kWarp, nullptr, &from[0]),
               "check failed");
}

}  // namespace
}  // namespace lockstep::cuda_shim

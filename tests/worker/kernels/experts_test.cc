// SPDX-License-Identifier: Apache-2.0
// route, expert_linear, expert_scale and combine agree with the reference and with linear, and have
// the same bits for any rows, threads and instruction sets.
#include <set>

#include "base/threads/thread_pool.h"
#include "tests/worker/kernels/expert_case.h"

namespace lockstep {
namespace {

constexpr ExpertSizes kSizes[] = {{1, 1, 1, 33, 65},   {1, 3, 8, 40, 64},  {5, 2, 4, 33, 300},
                                  {40, 2, 3, 70, 129}, {2, 4, 384, 7, 33}, {600, 1, 2, 33, 34},
                                  {24, 2, 4, 17, 72}};
constexpr ExpertSizes kDeep = {3, 2, 4, 17,
                               1100};  // K is more than a GPU's slice of K, which is 1024.

class ExpertLinearTest : public testing::TestWithParam<KernelEntry> {
 protected:
  static const KernelEntry& linear() {
    static std::vector<KernelEntry> linears;
    linears = kernels_of(Op::kLinear);
    for (const KernelEntry& entry : linears) {
      const std::string name = entry.name;
      if ("expert_" + name == GetParam().name) return entry;
    }
    ADD_FAILURE() << "no linear next to " << GetParam().name;
    return linears[0];
  }
};

TEST_P(ExpertLinearTest, ARouteHasTheBitsOfALinearOfItsRowWithItsExpertsMatrix) {
  std::vector<ExpertSizes> all(std::begin(kSizes), std::end(kSizes));
  all.push_back(kDeep);
  for (const ExpertSizes& sizes : all) {
    for (const bool routed : {false, true}) {
      const ExpertCase one(GetParam(), sizes, routed);
      const Matrix found = one.run_kernel(GetParam());
      const int64_t each = routed ? 1 : sizes.chosen;
      const int64_t step = std::max<int64_t>(1, found.view().rows / 8);
      for (int64_t r = 0; r < found.view().rows; r += step) {
        const int32_t expert = one.ids[static_cast<size_t>(r)];
        std::vector<std::byte> packed = one.weights[static_cast<size_t>(expert)].pack(linear());
        const Matrix wanted(1, sizes.cols);
        KernelArgs args;
        args.in[0] = one.x.view();
        args.in[0].data = one.x.view().row<std::byte>(0) +
                          r / each * one.x.view().stride * dtype_bytes(one.x.view().dtype);
        args.in[0].rows = 1;
        args.in[1] = one.weights[static_cast<size_t>(expert)].view();
        args.in[1].data = packed.data();
        args.in[2] = one.bias.view();
        args.in[2].data = one.bias.view().row<float>(0) + expert * sizes.cols;
        args.in[2].cols = sizes.cols;
        args.out[0] = wanted.view();
        run(linear(), args);
        TensorView row = found.view();
        row.data = found.view().row<float>(r);
        row.rows = 1;
        expect_same_bits(row, wanted.view(), GetParam().name);
      }
    }
  }
}

// Weights in codes are left out: ExpertLinearTest compares their bits with those of linear, whose
// own tests have the tolerances.
TEST(ExpertLinearOfFloatsTest, AgreesWithTheReferenceWithAndWithoutABias) {
  for (const KernelEntry& kernel : kernels_of(Op::kExpertLinear)) {
    if (quantization(kernel.weight)) continue;
    for (const ExpertSizes& sizes : kSizes) {
      const ExpertCase one(kernel, sizes, false);
      for (const bool with_bias : {false, true}) {
        std::vector<std::byte> rows;
        for (const Weights& weight : one.weights) {
          const auto* data = static_cast<const std::byte*>(weight.view().data);
          rows.insert(rows.end(), data,
                      data + sizes.cols * sizes.depth * dtype_bytes(kernel.weight));
        }
        const Matrix wanted(sizes.tokens * sizes.chosen, sizes.cols);
        reference::kernel(Op::kExpertLinear)(one.args(wanted.view(), rows, with_bias));
        const Matrix found = one.run_kernel(kernel, 2, with_bias);
        // Tensor cores truncate sums; linear_test.cc has the exact bound.
        const bool cuts = std::string_view(kernel.name).find("mma_") != std::string_view::npos;
        expect_close(found.view(), wanted.view(), cuts ? 1e-3 : 3e-5, kernel.name);
      }
    }
  }
}

TEST_P(ExpertLinearTest, BitsDependNeitherOnThreadsNorOnOtherTokens) {
  for (const ExpertSizes& sizes : kSizes) {
    const ExpertCase one(GetParam(), sizes, false);
    const Matrix alone = one.run_kernel(GetParam()), together = one.run_kernel(GetParam(), 3);
    expect_same_bits(together.view(), alone.view(), GetParam().name);
    std::vector<std::byte> packed = one.packed(GetParam());
    Matrix last(sizes.chosen, sizes.cols);
    KernelArgs args = one.args(last.view(), packed, true);
    const int64_t row = (sizes.tokens - 1) * one.x.view().stride;
    args.in[0].data = one.x.view().row<std::byte>(0) + row * dtype_bytes(one.x.view().dtype);
    args.in[0].rows = 1;
    args.in[1].data = one.routes.view().row<int32_t>((sizes.tokens - 1) * sizes.chosen);
    args.in[1].rows = sizes.chosen;
    run(GetParam(), args);
    TensorView wanted = alone.view();
    wanted.data = alone.view().row<float>((sizes.tokens - 1) * sizes.chosen);
    wanted.rows = sizes.chosen;
    expect_same_bits(last.view(), wanted, GetParam().name);
  }
}

TEST_P(ExpertLinearTest, AnIdOutOfRangeReadsNothing) {
  for (const int32_t id : {-1, 4, 1 << 30}) {
    ExpertCase one(GetParam(), {5, 2, 4, 33, 64}, false);
    *one.routes.view().row<int32_t>(3) = id;
    std::vector<std::byte> packed = one.packed(GetParam());
    Matrix out(10, 33);
    KernelArgs args = one.args(out.view(), packed, false);
    // A GPU skips rows of an expert that does not exist.
    if (std::string(GetParam().name).find("_cuda") != std::string::npos) {
      run(GetParam(), args);
      continue;
    }
    ThreadPool pool(1);
    std::vector<std::byte> scratch(static_cast<size_t>(scratch_bytes(GetParam(), args, 1)) + 64);
    args.parallel = &pool;
    args.scratch = scratch.data() + 64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64;
    EXPECT_STREQ(GetParam().run(args), "an expert id is out of range");
  }
}

TEST_P(ExpertLinearTest, TheCostCountsTheMatricesOfTheUsedExperts) {
  ExpertCase one(GetParam(), {4, 2, 8, 40, 64}, false);
  const std::set<int32_t> named(one.ids.begin(), one.ids.end());
  std::vector<std::byte> packed = one.packed(GetParam());
  Matrix out(8, 40);
  const KernelCost cost = kernel_cost(GetParam(), one.args(out.view(), packed, false));
  const int64_t rest = 4 * 64 * dtype_bytes(GetParam().activation) + 8 * 4 + 8 * 40 * 4;
  EXPECT_EQ(cost.bytes, std::ssize(named) * GetParam().packed_bytes(40, 64) + rest);
  EXPECT_EQ(cost.flops, 2 * 8 * 40 * 64);
}

INSTANTIATE_TEST_SUITE_P(Cpu, ExpertLinearTest, testing::ValuesIn(kernels_of(Op::kExpertLinear)),
                         kernel_name);

struct RouteCase {
  Matrix scores, bias, ids, weights;
  KernelArgs args;

  RouteCase(int64_t rows, int64_t experts, const RouteAttrs& attrs, bool with_bias)
      : scores(Matrix::random(rows, experts, 5, DType::kF32, experts + 1)),
        bias(Matrix::random(1, experts, 6)),
        ids(rows * attrs.chosen, 1, DType::kI32),
        weights(rows * attrs.chosen, 1) {
    args.in[0] = scores.view();
    if (with_bias) args.in[1] = bias.view();
    args.out[0] = ids.view();
    args.out[1] = weights.view();
    args.attrs = attrs;
  }
  std::vector<int32_t> chosen() const {
    const auto* first = ids.view().row<int32_t>(0);
    return {first, first + ids.view().rows};
  }
};

// Numbers of experts and ways to choose: softmax, sigmoid, and softmax of the chosen ones.
std::vector<std::pair<int64_t, RouteAttrs>> ways_to_choose() {
  const RouteAttrs plain = {.chosen = 2, .groups = 1, .chosen_groups = 1, .scale = 1};
  std::vector<std::pair<int64_t, RouteAttrs>> ways;
  for (const int64_t experts : {2, 8, 31, 128, 384}) {
    ways.emplace_back(experts, plain);
    RouteAttrs attrs = plain;
    attrs.renormalised = true;
    attrs.scale = 2.5f;
    ways.emplace_back(experts, attrs);
    attrs.sigmoid = true;
    ways.emplace_back(experts, attrs);
    attrs = plain;
    attrs.softmax_of_chosen = true;
    ways.emplace_back(experts, attrs);
  }
  ways.push_back({1, {.chosen = 1, .sigmoid = true, .groups = 1, .chosen_groups = 1, .scale = 1}});
  for (const bool best_two : {false, true}) {
    ways.push_back({64,
                    {.chosen = 8,
                     .sigmoid = best_two,
                     .groups = 8,
                     .chosen_groups = 3,
                     .best_two = best_two,
                     .renormalised = best_two,
                     .scale = 1}});
  }
  return ways;
}

class RouteTest : public testing::TestWithParam<KernelEntry> {};

TEST_P(RouteTest, ResultsAgreeWithTheReferenceOnEveryIsaAndAnyThreads) {
  for (const auto& [experts, attrs] : ways_to_choose()) {
    for (const bool with_bias : {false, true}) {
      if (with_bias && attrs.softmax_of_chosen) continue;
      RouteCase wanted(50, experts, attrs, with_bias), found(50, experts, attrs, with_bias),
          portable(50, experts, attrs, with_bias);
      reference::kernel(Op::kRoute)(wanted.args);
      run(GetParam(), found.args, 3);
      run(portable_of(GetParam()), portable.args, 1);
      EXPECT_EQ(found.chosen(), wanted.chosen()) << experts;
      expect_close(found.weights.view(), wanted.weights.view(), 2e-6, GetParam().name);
      expect_same_bits(found.weights.view(), portable.weights.view(), GetParam().name);
      EXPECT_EQ(found.chosen(), portable.chosen());
    }
  }
}

TEST_P(RouteTest, EqualScoresChooseTheLowerNumberAndNanCanBeChosen) {
  const RouteAttrs attrs = {.chosen = 3, .groups = 1, .chosen_groups = 1, .scale = 1};
  RouteCase one(3, 8, attrs, false);
  for (int64_t e = 0; e < 8; ++e) {
    one.scores.view().row<float>(0)[e] = e == 6 ? 2.0f : 1.0f;
    one.scores.view().row<float>(1)[e] = std::nanf("");
    one.scores.view().row<float>(2)[e] = e < 2 ? -HUGE_VALF : HUGE_VALF;
  }
  run(GetParam(), one.args);
  const std::vector<int32_t> ids = one.chosen();
  EXPECT_EQ(std::vector<int32_t>(ids.begin(), ids.begin() + 3), (std::vector<int32_t>{0, 1, 6}));
  for (int64_t token = 1; token < 3; ++token) {
    const std::set<int32_t> own(ids.begin() + 3 * token, ids.begin() + 3 * token + 3);
    EXPECT_EQ(own.size(), 3u);
    EXPECT_GE(*own.begin(), 0);
    EXPECT_LT(*own.rbegin(), 8);
  }
}

// There are no emulated kernels for route.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RouteTest);
INSTANTIATE_TEST_SUITE_P(Cpu, RouteTest, testing::ValuesIn(kernels_of(Op::kRoute)), kernel_name);

class ExpertScaleTest : public testing::TestWithParam<KernelEntry> {};

TEST_P(ExpertScaleTest, ARowIsScaledByItsExpertAndAnIdOutOfRangeGivesZero) {
  for (const int64_t cols : {1, 33}) {
    const Matrix x = Matrix::random(40, cols, 1, DType::kF32, cols + 2);
    const Matrix scales = Matrix::random(1, 5, 2);
    const Matrix ids = ids_of(random_ids(20, 2, 7));  // The ids 5 and 6 are out of range.
    *ids.view().row<int32_t>(3) = -1;
    const Matrix wanted(40, cols), found(40, cols);
    KernelArgs args;
    args.in[0] = x.view();
    args.in[1] = ids.view();
    args.in[2] = scales.view();
    args.out[0] = wanted.view();
    reference::kernel(Op::kExpertScale)(args);
    EXPECT_EQ(wanted.at(3, 0), 0.0f);
    args.out[0] = found.view();
    run(GetParam(), args, 3);
    expect_same_bits(found.view(), wanted.view(), GetParam().name);
    args.in[0] = found.view();  // The second call works in place.
    run(GetParam(), args, 2);
    args.out[0] = wanted.view();
    args.in[0] = wanted.view();
    reference::kernel(Op::kExpertScale)(args);
    expect_same_bits(found.view(), wanted.view(), GetParam().name);
  }
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ExpertScaleTest);
INSTANTIATE_TEST_SUITE_P(Cpu, ExpertScaleTest, testing::ValuesIn(kernels_of(Op::kExpertScale)),
                         kernel_name);

class CombineTest : public testing::TestWithParam<KernelEntry> {};

TEST_P(CombineTest, ResultsAgreeWithTheReferenceOnEveryIsaAndAnyThreads) {
  for (const int64_t tokens : {1, 3, 70}) {
    for (const int64_t each : {1, 2, 8}) {
      for (const int64_t cols : {1, 16, 33, 700}) {
        const Matrix x = Matrix::random(tokens * each, cols, 1, DType::kF32, cols + 2);
        const Matrix weights = Matrix::random(tokens * each, 1, 2);
        const Matrix wanted(tokens, cols), found(tokens, cols), portable(tokens, cols);
        KernelArgs args;
        args.in[0] = x.view();
        args.in[1] = weights.view();
        args.out[0] = wanted.view();
        reference::kernel(Op::kCombine)(args);
        args.out[0] = found.view();
        run(GetParam(), args, 3);
        args.out[0] = portable.view();
        run(portable_of(GetParam()), args, 1);
        expect_close(found.view(), wanted.view(), 4e-6, GetParam().name);
        expect_same_bits(found.view(), portable.view(), GetParam().name);
      }
    }
  }
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CombineTest);
INSTANTIATE_TEST_SUITE_P(Cpu, CombineTest, testing::ValuesIn(kernels_of(Op::kCombine)),
                         kernel_name);

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// A kernel that disagrees with the plain one, cannot run or was never tried computes no token.
#include "worker/kernel_choice/proof.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/status.h"
#include "base/threads/thread_pool.h"
#include "tests/support/tiny_program.h"
#include "tests/worker/kernel_choice/fake_linears.h"

namespace lockstep::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// One linear for each element of `widths`, its number of columns. The first linear has a bias.
constexpr int64_t kDepth = 40;
program::Program program_of(const Backend& backend, const std::vector<int64_t>& widths,
                            int64_t rows) {
  ProgramBuilder b(0, 1, 100, kDepth);
  const int x = b.value("x", kDepth, program::TOKENS, program::BF16);
  for (const int64_t cols : widths) {
    const std::string name = "w" + std::to_string(cols);
    std::vector<int> weights = {
        b.weight(name, program::LINEAR_WEIGHT, cols, kDepth, 0, cols, program::BF16)};
    if (cols == widths.front()) weights.push_back(b.weight("b", program::BIAS, 1, cols, 0, cols));
    b.add(program::LINEAR, {x}, weights, {b.value("y", cols)});
  }
  b.program.set_numeric_class(backend.numeric_class);
  b.program.mutable_limits()->set_rows(rows);
  return b.program;
}

struct Proven {
  explicit Proven(std::vector<KernelEntry> kernels, const char* numeric_class = "fake.v1",
                  const std::vector<int64_t>& widths = {20}, int64_t rows = 100)
      : fake(std::move(kernels), numeric_class),
        program(program_of(fake.backend, widths, rows)),
        proof(untried(program, fake.backend)) {}

  absl::Status prove(int64_t budget_ms = 20'000) {
    ThreadPool pool(1);
    return lockstep::prove(program, fake.backend, WeightSource(RandomWeights(7)), pool,
                           {.budget_ms = budget_ms, .now_ns = fake_now}, &proof);
  }
  // The name of the chosen kernel of each linear.
  std::vector<std::string> chosen() const {
    std::vector<std::string> names;
    const auto kernels = chosen_kernels(program, fake.backend, proof);
    for (const KernelEntry* kernel : *kernels) {
      if (kernel != nullptr) names.emplace_back(kernel->name);
    }
    return names;
  }
  std::vector<std::string> lines() const { return complaints(proof, 20'000); }

  FakeBackend fake;
  program::Program program;
  Proof proof;
};

TEST(ProofTest, AKernelThatAgreesWithThePlainOneIsUsed) {
  Proven proven({fake_entry("right", fake_right)});
  ASSERT_EQ(message_of(proven.prove()), "");
  EXPECT_THAT(proven.chosen(), ElementsAre("right"));
  EXPECT_THAT(proven.lines(), IsEmpty());
  EXPECT_TRUE(proven.proof.complete());
  const Trial& trial = proven.proof.trials[0];
  ASSERT_EQ(trial.rows.size(), 5u);  // Rows: 100, 1, 7, 8, 64.
  EXPECT_EQ(trial.rows[0].rows, 100);
  EXPECT_GT(trial.rows[0].error, 0);  // The plain kernel has another order of sums.
  EXPECT_LT(trial.rows[0].error, 0.5);
  EXPECT_EQ(trial.rows[1].ns, 10'000);
}

TEST(ProofTest, OneMissingProductInOneColumnIsFound) {
  Proven proven({fake_entry("wrong", fake_wrong_column), fake_entry("right", fake_right)});
  ASSERT_EQ(message_of(proven.prove()), "");
  EXPECT_THAT(proven.chosen(), ElementsAre("right"));
  ASSERT_EQ(proven.lines().size(), 1u);
  EXPECT_THAT(proven.lines()[0], HasSubstr("linear bf16 [20, 40] with bias: wrong is not used: "
                                           "with 100 rows, the error of row "));
  EXPECT_THAT(proven.lines()[0], HasSubstr("column 3 is "));
  EXPECT_THAT(proven.lines()[0], HasSubstr("times its bound"));
}

// A gated_linear of `cols` columns, with a bias.
program::Program gated_program(const Backend& backend, int64_t cols) {
  ProgramBuilder b(0, 1, 100, kDepth);
  const int x = b.value("x", kDepth, program::TOKENS, program::BF16);
  const int weight =
      b.weight("w", program::LINEAR_WEIGHT, 2 * cols, kDepth, 0, 2 * cols, program::BF16);
  const int bias = b.weight("b", program::BIAS, 1, 2 * cols, 0, 2 * cols);
  b.add(program::GATED_LINEAR, {x}, {weight, bias}, {b.value("y", cols)})
      .mutable_attributes()
      ->mutable_map()
      ->set_function(program::SILU);
  b.program.set_numeric_class(backend.numeric_class);
  b.program.mutable_limits()->set_rows(600);
  return b.program;
}

TEST(ProofTest, AGatedLinearIsProvenByTheProductOfBothSums) {
  FakeBackend fake({fake_gated_entry("wrong", fake_gated<fake_wrong_column>),
                    fake_gated_entry("right", fake_gated<fake_right>),
                    fake_gated_entry("plain_gated", fake_gated<fake_plain>)});
  const program::Program program = gated_program(fake.backend, 300);
  Proof proof = untried(program, fake.backend);
  ThreadPool pool(2);
  ASSERT_EQ(message_of(prove(program, fake.backend, WeightSource(RandomWeights(7)), pool,
                             {.budget_ms = 20'000'000, .now_ns = fake_now}, &proof)),
            "");
  EXPECT_TRUE(proof.complete());
  ASSERT_EQ(proof.trials.size(), 3u);
  EXPECT_STREQ((*chosen_kernels(program, fake.backend, proof))[0]->name, "right");
  EXPECT_THAT(complaints(proof, 20'000),
              ElementsAre(HasSubstr("gated_linear bf16 [600, 40] with bias: wrong is not used")));
  EXPECT_THAT(complaints(proof, 20'000), ElementsAre(HasSubstr("column 1 is ")));
  const Trial& right = proof.trials[1];
  EXPECT_GT(right.rows[0].error, 0);
  EXPECT_LT(right.rows[0].error, 0.5);
  EXPECT_EQ(right.rows.back().rows, 600);
  EXPECT_EQ(proof.trials[2].rows[0].error, 0) << "sums have the same order";
}

TEST(ProofTest, UnwrittenOutputsAreFoundDespiteEarlierResults) {
  Proven proven({fake_entry("unwritten", fake_unwritten)});
  ASSERT_EQ(message_of(proven.prove()), "");
  EXPECT_THAT(proven.chosen(), ElementsAre("plain"));
  EXPECT_THAT(proven.lines(), ElementsAre(HasSubstr("column 19 is ")));
}

TEST(ProofTest, AKernelThatCannotRunIsNotUsed) {
  Proven proven({fake_entry("refusing", fake_refusing)});
  ASSERT_EQ(message_of(proven.prove()), "");
  EXPECT_THAT(proven.chosen(), ElementsAre("plain"));
  EXPECT_THAT(proven.lines(),
              ElementsAre("linear bf16 [20, 40] with bias: refusing is not used: it "
                          "cannot run on 100 rows: no kernel image is available"));
}

TEST(ProofTest, ExactKernelsGiveARowTheSameBitsAmongAnyRows) {
  Proven exact({fake_entry("by_rows", fake_by_rows)});
  ASSERT_EQ(message_of(exact.prove()), "");
  EXPECT_THAT(exact.chosen(), ElementsAre("plain"));
  EXPECT_THAT(exact.lines(), ElementsAre(HasSubstr("has other bits with ")));
  EXPECT_THAT(exact.lines(), ElementsAre(HasSubstr("--fast allows that")));
  Proven fast({fake_entry("by_rows", fake_by_rows)}, "cuda.fast.v1@fake");
  ASSERT_EQ(message_of(fast.prove()), "");
  EXPECT_THAT(fast.chosen(), ElementsAre("by_rows"));
}

TEST(ProofTest, OnlyTheFastClassChoosesByTime) {
  const std::vector<KernelEntry> kernels = {fake_entry("slow", fake_slow),
                                            fake_entry("right", fake_right)};
  Proven exact(kernels), fast(kernels, "cuda.fast.v1@fake");
  ASSERT_EQ(message_of(exact.prove()), "");
  ASSERT_EQ(message_of(fast.prove()), "");
  EXPECT_THAT(exact.chosen(), ElementsAre("slow"));
  EXPECT_THAT(fast.chosen(), ElementsAre("right"));
}

TEST(ProofTest, KernelsWithTheirOwnBitsAreTriedOnlyInTheFastClass) {
  std::vector<KernelEntry> kernels = {fake_entry("library", fake_right)};
  kernels[0].own_bits = true;
  Proven exact(kernels), fast(kernels, "cuda.fast.v1@fake");
  EXPECT_EQ(exact.proof.trials.size(), 1u);
  ASSERT_EQ(message_of(fast.prove()), "");
  EXPECT_THAT(exact.chosen(), ElementsAre("plain"));
  EXPECT_THAT(fast.chosen(), ElementsAre("library"));
}

TEST(ProofTest, ManyRowsAreTriedOnSomeOfTheColumns) {
  Proven proven({fake_entry("right", fake_right)}, "fake.v1", {513}, 514);
  ASSERT_EQ(message_of(proven.prove()), "");
  const TriedRows& wide = proven.proof.trials[0].rows.back();
  EXPECT_EQ(wide.rows, 514);
  EXPECT_EQ(wide.cols, 512);
  EXPECT_THAT(proven.chosen(), ElementsAre("right"));
}

TEST(ProofTest, NoUntriedKernelIsUsedIfTheTimeIsOver) {
  Proven proven({fake_entry("right", fake_right)});
  ASSERT_EQ(message_of(proven.prove(0)), "");
  EXPECT_THAT(proven.chosen(), ElementsAre("plain"));
  EXPECT_THAT(proven.lines(), ElementsAre(HasSubstr("kernels of 1 shapes are not proven in the 20 "
                                                    "s")));
}

// The smallest shape is proven first; its proven kernel then computes the other shapes.
TEST(ProofTest, AKernelProvenForAnotherShapeIsUsedAfterTheTimeout) {
  Proven proven({fake_entry("right", fake_right)}, "fake.v1", {20, 90, 33});
  ASSERT_EQ(message_of(proven.prove(1)), "");
  EXPECT_EQ(proven.proof.find(proven.proof.trials[0].shape, "right")->verdict, Verdict::kProven);
  EXPECT_FALSE(proven.proof.complete());
  EXPECT_THAT(proven.chosen(), ElementsAre("right", "right", "right"));
  ASSERT_EQ(proven.lines().size(), 1u);
  EXPECT_THAT(proven.lines()[0], HasSubstr("linear bf16 [90, 40]"));
  ASSERT_EQ(message_of(proven.prove()), "");  // The next start continues.
  EXPECT_TRUE(proven.proof.complete());
  Proven wrong({fake_entry("wrong", fake_wrong_column)}, "fake.v1", {20, 90, 33});
  ASSERT_EQ(message_of(wrong.prove(1)), "");
  EXPECT_THAT(wrong.chosen(), ElementsAre("plain", "plain", "plain"));
}

TEST(ProofTest, TheGroupsChoiceIsUsedUnlessTheKernelIsRefusedOrUnknown) {
  Proven proven({fake_entry("wrong", fake_wrong_column), fake_entry("right", fake_right)});
  ASSERT_EQ(message_of(proven.prove()), "");
  const auto wanted = [&](std::vector<std::string> names) {
    return chosen_kernels(proven.program, proven.fake.backend, proven.proof, names);
  };
  EXPECT_STREQ((*wanted({"plain"}))[0]->name, "plain");
  EXPECT_THAT(message_of(wanted({"wrong"}).status()), HasSubstr("wrong is refused here: with 100"));
  EXPECT_EQ(message_of(wanted({"other"}).status()),
            "kernel of linear 0: must be one of wrong, right, plain, found \"other\"");
  EXPECT_EQ(message_of(wanted({"right", "right"}).status()),
            "kernels must be given for 1 linears, found 2");
  EXPECT_THAT(kernels_text(proven.program, proven.fake.backend, proven.proof, *wanted({"right"})),
              ElementsAre("right,plain"));
}

// Sums 14336 products of bfloat16 numbers in two orders: one after another, as the plain kernel
// does, and in slices of 1024, as tensor cores do.
TEST(ErrorBoundTest, TheBoundHoldsForBothOrdersAndFindsAMissingSlice) {
  constexpr int64_t kProducts = 14336, kSlice = 1024;
  const TrialShape shape{.weight = DType::kBF16, .x = DType::kBF16, .cols = 1, .depth = kProducts};
  double worst = 0, missing = 0;
  for (int64_t row = 0; row < 50; ++row) {
    float plain = 0, sliced = 0, last = 0;
    double squares = 0;
    for (int64_t begin = 0; begin < kProducts; begin += kSlice) {
      float slice = 0;
      for (int64_t k = begin; k < begin + kSlice; ++k) {
        const float w = trial_x(-2, k), product = trial_x(row, k) * w;
        plain += product;
        // A tensor core truncates, which makes sums smaller.
        slice = std::nextafter(slice + product, 0.0f);
        squares += double{w} * w;
      }
      sliced += slice;
      last = slice;
    }
    const double bound = error_bound(shape, true, std::sqrt(squares), 0);
    EXPECT_GT(error_bound(shape, false, std::sqrt(squares), 0), bound);
    worst = std::max(worst, std::abs(double{plain} - sliced) / bound);
    missing = std::max(missing, std::abs(last) / bound);
  }
  EXPECT_LT(worst, 1);
  EXPECT_GT(worst, 0.001);
  EXPECT_GT(missing, 10);
}

}  // namespace
}  // namespace lockstep::testing

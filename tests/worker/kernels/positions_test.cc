// SPDX-License-Identifier: Apache-2.0
// Kernels that depend only on a row's position: rotary angles, scales of queries.
#include <cmath>
#include <utility>
#include <vector>

#include "tests/worker/kernels/kernel_case.h"

namespace lockstep {
namespace {

const int64_t kWidths[] = {1, 15, 16, 17, 31, 32, 33, 64, 2048};

// A step with rows at the positions `at`. If there are several sequences, row r belongs to sequence
// r.
struct PositionedStep : StepView {
  explicit PositionedStep(const std::vector<int32_t>& at, std::vector<StepSequence> of = {{}})
      : own_positions(at), own_sequences(std::move(of)), own_rows(at.size()) {
    for (size_t r = 0; r < at.size() && own_sequences.size() > 1; ++r) {
      own_rows[r] = static_cast<int32_t>(r);
    }
    rows = std::ssize(own_positions);
    positions = own_positions.data();
    sequence_of_row = own_rows.data();
    sequences = own_sequences.data();
    sequence_count = std::ssize(own_sequences);
  }
  std::vector<int32_t> own_positions;
  std::vector<StepSequence> own_sequences;
  std::vector<int32_t> own_rows;
};

// Returns the kernel's result for these rows and expects it to agree with the reference.
Matrix rope_table(KernelArgs args, double tolerance, int threads = 2) {
  const int64_t rows = args.step->rows, cols = rotary_dim_of(args.attrs.rope_table());
  Matrix wanted(rows, cols), found(rows, cols);
  args.out[0] = wanted.view();
  reference::kernel(Op::kRopeTable)(args);
  args.out[0] = found.view();
  run(kernels_of(Op::kRopeTable)[0], args, threads);
  expect_close(found.view(), wanted.view(), tolerance, "rope_table");
  return found;
}

TEST(RopeTableTest, ASequencesLengthChoosesItsFrequencies) {
  const float inv_freq[] = {1, 0.5f, 0.25f, 0.125f, 0.1f, 0.01f};
  const int64_t lengths[] = {10, 20};
  PositionedStep step({3, 3, 3, 3, 3}, {{.rope_length = 1},
                                        {.rope_length = 10},
                                        {.rope_length = 11},
                                        {.rope_length = 20},
                                        {.rope_length = 21}});
  KernelArgs args;
  args.step = &step;
  args.attrs = RopeTableAttrs{.inv_freq = {inv_freq, 6}, .factor = 1, .lengths = {lengths, 2}};
  const Matrix found = rope_table(args, 1.5e-7);
  const float own[] = {0.5f, 0.5f, 0.125f, 0.125f, 0.01f};
  for (int r = 0; r < 5; ++r) EXPECT_NEAR(found.at(r, 3), std::sin(3 * own[r]), 1e-6) << r;
}

TEST(RopeTableTest, RopeUsesARowsPositionOrAHeldPositionOrCountsFromThePrefixsEnd) {
  const float inv_freq[] = {0.1f};
  PositionedStep step({0, 4, 5, 6, 9}, {{.prefix_rows = 5, .held_position = 3}});
  const std::vector<std::vector<int>> positions = {
      {0, 4, 5, 6, 9}, {0, 4, 3, 3, 3}, {0, 0, 1, 2, 5}};
  for (const PositionRow row : {PositionRow::kOwn, PositionRow::kHeld, PositionRow::kBlock}) {
    KernelArgs args;
    args.step = &step;
    args.attrs = RopeTableAttrs{.inv_freq = {inv_freq, 1}, .factor = 1, .position_row = row};
    const Matrix found = rope_table(args, 1.5e-7);
    for (int r = 0; r < 5; ++r) {
      const int position = positions[static_cast<size_t>(row)][static_cast<size_t>(r)];
      EXPECT_NEAR(found.at(r, 1), std::sin(0.1 * position), 1e-6) << r;
    }
  }
}

TEST(RopeTableTest, TheTableHasCosAndSinOfTheFloatAngle) {
  std::vector<float> inv_freq(32);
  for (int i = 0; i < 32; ++i) inv_freq[i] = static_cast<float>(std::pow(1e4, -i / 32.0));
  PositionedStep step({0, 1, 4095, 131071});
  KernelArgs args;
  args.step = &step;
  args.attrs = RopeTableAttrs{.inv_freq = {inv_freq.data(), 32}, .factor = 1.25f};
  const Matrix found = rope_table(args, 1.5e-7);
  EXPECT_EQ(found.at(0, 0), 1.25f);
  EXPECT_EQ(found.at(0, 32), 0.0f);
}

TEST(RopeTableTest, DynamicScalingStretchesTheBaseOnlyBeyondTheOriginalLength) {
  PositionedStep step({0, 99, 100, 350});
  std::vector<float> inv_freq(8);
  for (int i = 0; i < 8; ++i) inv_freq[i] = static_cast<float>(std::pow(1e4, -i / 8.0));
  KernelArgs args;
  args.step = &step;
  args.attrs = RopeTableAttrs{.inv_freq = {inv_freq.data(), 8},
                              .factor = 1,
                              .dynamic_length = 100,
                              .dynamic_factor = 2,
                              .theta = 10000};
  // The tolerance is half a unit in the last place of a frequency, times position 350.
  const Matrix found = rope_table(args, 1e-4, 3);
  args.attrs.rope_table().dynamic_length = 0;
  const Matrix plain = rope_table(args, 1.5e-7);
  EXPECT_NEAR(found.at(1, 3), plain.at(1, 3), 1e-5);
  EXPECT_GT(std::abs(found.at(3, 3) - plain.at(3, 3)), 1e-2);
}

TEST(PositionScaleTest, ARowHasTheScaleOfItsPositionOrTheLastScale) {
  const float scales[] = {1, 1.25f, -0.7f};
  const float of_rows[] = {1, 1, 1.25f, -0.7f, -0.7f, -0.7f};
  PositionedStep step({0, 8, 9, 28, 29, 4000});  // The offset adds one.
  for (const int64_t cols : kWidths) {
    const Matrix x = Matrix::random(6, cols, 1, DType::kF32, cols + 3);
    Matrix wanted(6, cols);
    KernelArgs args;
    args.step = &step;
    args.attrs = PositionScaleAttrs{.scales = {scales, 3}, .length = 10, .offset = 1};
    args.in[0] = x.view();
    args.out[0] = wanted.view();
    reference::kernel(Op::kPositionScale)(args);
    for (int64_t r = 0; r < 6; ++r) EXPECT_EQ(wanted.at(r, 0), x.at(r, 0) * of_rows[r]);
    for (const KernelEntry& kernel : kernels_of(Op::kPositionScale)) {
      Matrix found(6, cols, DType::kF32, cols + 1);
      args.in[0] = x.view();
      args.out[0] = found.view();
      run(kernel, args, 2);
      expect_same_bits(found.view(), wanted.view(), kernel.name);
      args.in[0] = args.out[0] = found.view();  // In place: scaled again.
      run(kernel, args);
      for (int64_t r = 0; r < 6; ++r) EXPECT_EQ(found.at(r, 0), wanted.at(r, 0) * of_rows[r]);
    }
  }
}

TEST(PositionScaleTest, BeyondTheLengthTheScaleGrowsWithTheLogarithmOfThePosition) {
  PositionedStep step({0, 15, 16, 17, 1000, 32767, 16777215});
  const float factor = 1 / std::log(16.0f);
  const Matrix x = Matrix::random(7, 37, 1, DType::kF32, 40);
  Matrix wanted(7, 37), first(7, 37);
  KernelArgs args;
  args.step = &step;
  args.attrs = PositionScaleAttrs{.length = 16, .log_factor = factor};
  args.in[0] = x.view();
  args.out[0] = wanted.view();
  reference::kernel(Op::kPositionScale)(args);
  EXPECT_EQ(wanted.at(1, 3), x.at(1, 3));
  EXPECT_NEAR(wanted.at(4, 3) / x.at(4, 3), std::log(1001.0) / std::log(16.0), 1e-6);
  args.out[0] = first.view();
  run(kernels_of(Op::kPositionScale).back(), args);
  expect_close(first.view(), wanted.view(), 4e-7, "position_scale");
  for (const KernelEntry& kernel : kernels_of(Op::kPositionScale)) {
    Matrix found(7, 37);
    args.out[0] = found.view();
    run(kernel, args, 2);
    expect_same_bits(found.view(), first.view(), kernel.name);
  }
}

}  // namespace
}  // namespace lockstep

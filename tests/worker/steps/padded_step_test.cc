// SPDX-License-Identifier: Apache-2.0
#include "worker/steps/padded_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <vector>

namespace lockstep {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

TEST(PaddedRowsTest, PaddedRowsAreLessThanTwiceTheRowsAndHaveFewSizes) {
  std::vector<int64_t> buckets;
  for (int64_t rows = 1; rows <= kMaxPaddedRows; ++rows) {
    const int64_t bucket = padded_rows(rows, kMaxPaddedRows);
    EXPECT_GE(bucket, rows);
    EXPECT_LT(bucket, 2 * rows);
    EXPECT_EQ(padded_rows(bucket, kMaxPaddedRows), bucket);
    if (buckets.empty() || buckets.back() != bucket) buckets.push_back(bucket);
  }
  EXPECT_THAT(buckets, ElementsAre(1, 2, 4, 8, 16, 32, 64, 128, 192, 256));
  EXPECT_EQ(padded_rows(33, 48), 48);
}

TEST(PaddedPositionsTest, PaddedPositionsAreTheNextPowerOfTwoFrom256On) {
  EXPECT_EQ(padded_positions(1), 256);
  EXPECT_EQ(padded_positions(256), 256);
  EXPECT_EQ(padded_positions(257), 512);
  EXPECT_EQ(padded_positions(131072), 131072);
}

program::Limits limits_of(int64_t rows, int64_t sequences, int64_t outputs) {
  program::Limits limits;
  limits.set_rows(rows);
  limits.set_sequences(sequences);
  limits.set_outputs(outputs);
  return limits;
}

// Sequences of one row each, at positions 300, 301 ...; the first `wanted` rows have outputs.
struct Step {
  std::vector<int32_t> tokens, positions, sequence_of_row, output_rows;
  std::vector<int32_t> pages = {3, 4};
  std::vector<StepSequence> sequences;
  std::vector<OutputSpec> outputs;
  StepView view;

  Step(int64_t rows, int64_t wanted) {
    for (int32_t i = 0; i < rows; ++i) {
      tokens.push_back(10 + i);
      positions.push_back(300 + i);
      sequence_of_row.push_back(i);
      sequences.push_back(
          {.first_row = i, .rows = 1, .first_position = 300 + i, .pages = pages.data(), .slot = i});
    }
    for (int32_t i = 0; i < wanted; ++i) {
      output_rows.push_back(i);
      outputs.push_back({.seed = 7, .want_noisy = true});
    }
    view = {.rows = rows,
            .tokens = tokens.data(),
            .positions = positions.data(),
            .sequence_of_row = sequence_of_row.data(),
            .sequences = sequences.data(),
            .sequence_count = rows,
            .output_rows = output_rows.data(),
            .outputs = outputs.data(),
            .output_count = wanted};
  }
};

constexpr StateRoom kRoom = {.pages = 20, .sequences = 9, .spare = 1};

TEST(PaddedStepTest, APaddedStepEndsWithRowsOfTheSparePageAndSlot) {
  PaddedStep padded(limits_of(64, 8, 8));
  padded.use(kRoom);
  Step step(3, 2);
  const StepView* found = padded.take(step.view);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->rows, 4);
  EXPECT_EQ(found->sequence_count, 4);
  EXPECT_EQ(found->output_count, 4);
  EXPECT_EQ(found->longest, 512);
  EXPECT_EQ(found->embeddings, nullptr);
  EXPECT_THAT(std::span(found->tokens, 4), ElementsAre(10, 11, 12, 0));
  EXPECT_THAT(std::span(found->positions, 4), ElementsAre(300, 301, 302, 0));
  EXPECT_THAT(std::span(found->sequence_of_row, 4), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(std::span(found->output_rows, 4), ElementsAre(0, 1, 3, 3));
  EXPECT_EQ(found->sequences[2].pages, step.pages.data());
  EXPECT_EQ(found->sequences[2].slot, 2);
  const StepSequence& last = found->sequences[3];
  EXPECT_EQ(last.first_row, 3);
  EXPECT_EQ(last.rows, 1);
  EXPECT_EQ(last.first_position, 0);
  EXPECT_EQ(last.pages[0], kRoom.pages);
  EXPECT_EQ(last.slot, kRoom.sequences);
  EXPECT_TRUE(found->outputs[1].want_noisy);
  EXPECT_FALSE(found->outputs[2].want_noisy);
  EXPECT_EQ(found->outputs[3].seed, 0u);
}

TEST(PaddedStepTest, APaddedStepContainsNothingOfThePreviousStep) {
  PaddedStep padded(limits_of(64, 8, 8));
  padded.use(kRoom);
  Step eight(8, 8), five(5, 5);
  ASSERT_NE(padded.take(eight.view), nullptr);
  const StepView* found = padded.take(five.view);
  ASSERT_EQ(found->rows, 8);
  EXPECT_THAT(std::span(found->tokens + 5, 3), Each(0));
  for (int64_t i = 5; i < 8; ++i) {
    EXPECT_EQ(found->sequences[i].slot, kRoom.sequences);
    EXPECT_FALSE(found->outputs[i].want_noisy);
  }
}

TEST(PaddedStepTest, OtherStepsAreNotPadded) {
  PaddedStep padded(limits_of(64, 8, 6));
  Step step(3, 3);
  EXPECT_EQ(padded.take(step.view), nullptr) << "there is no spare page";
  padded.use({.pages = 20, .sequences = 9});
  EXPECT_EQ(padded.take(step.view), nullptr) << "there is still none";
  padded.use(kRoom);
  EXPECT_NE(padded.take(step.view), nullptr);
  Step none(0, 0), six(6, 6), seven(7, 6);
  EXPECT_EQ(padded.take(none.view), nullptr);
  EXPECT_EQ(padded.take(six.view)->rows, 6) << "outputs were planned for at most this many";
  EXPECT_EQ(padded.take(seven.view), nullptr);
  padded.pad_up_to(5);
  Step five(5, 5);
  EXPECT_EQ(padded.take(five.view)->rows, 5) << "at most this many may be padded";
  EXPECT_EQ(padded.take(six.view), nullptr);
  padded.pad_up_to(kMaxPaddedRows);
  EXPECT_EQ(padded.take(six.view)->rows, 6);
  StepView prompt = step.view;
  prompt.sequence_count = 2;
  EXPECT_EQ(padded.take(prompt), nullptr);
  StepView embedded = step.view;
  const float embedding = 0;
  embedded.embeddings = &embedding;
  EXPECT_EQ(padded.take(embedded), nullptr);
}

}  // namespace
}  // namespace lockstep

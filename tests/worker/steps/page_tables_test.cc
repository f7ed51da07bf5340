// SPDX-License-Identifier: Apache-2.0
// Steps as differences: a slot's pages, the steps that may follow, and the steps that are refused.
#include "worker/steps/page_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two slots with at most 10 pages of 4 positions each; page ids are below 20.
class PageTablesTest : public ::testing::Test {
 protected:
  static program::Limits limits() {
    program::Limits limits;
    limits.set_sequences(2);
    limits.set_context(40);
    limits.set_page_tokens(4);
    return limits;
  }
  // A step with one sequence.
  static cluster::Step step(uint64_t number, int32_t slot, int64_t first, int64_t rows,
                            const std::vector<int32_t>& pages, bool begins = false) {
    cluster::Step step;
    step.set_step(number);
    cluster::StepSequence& sequence = *step.add_sequences();
    sequence.set_slot(slot);
    sequence.set_first_position(first);
    sequence.set_rows(rows);
    sequence.set_begins(begins);
    for (const int32_t page : pages) sequence.add_pages(page);
    return step;
  }
  std::string take(const cluster::Step& step) {
    const absl::Status status = tables_.check(step);
    if (status.ok()) tables_.take(step);
    return message_of(status);
  }

  PageTables tables_{limits(), {.pages = 20, .sequences = 2}, false};
};

TEST_F(PageTablesTest, NewPagesAreAddedAfterASlotsPages) {
  EXPECT_EQ(take(step(0, 1, 0, 6, {7, 3}, true)), "");
  EXPECT_EQ(take(step(1, 1, 6, 2, {})), "");
  EXPECT_EQ(take(step(2, 1, 8, 1, {19})), "");
  EXPECT_THAT(tables_.of(1), ElementsAre(7, 3, 19));
  EXPECT_THAT(tables_.of(0), ElementsAre());
}

TEST_F(PageTablesTest, ANewSequenceForgetsItsSlotsPages) {
  EXPECT_EQ(take(step(0, 0, 0, 6, {7, 3}, true)), "");
  EXPECT_EQ(take(step(1, 0, 0, 2, {4}, true)), "");
  EXPECT_THAT(tables_.of(0), ElementsAre(4));
  EXPECT_EQ(take(step(2, 0, 5, 2, {1, 2}, true)), "")
      << "begins after positions whose pages are already filled";
  EXPECT_THAT(tables_.of(0), ElementsAre(1, 2));
  EXPECT_EQ(take(step(3, 0, 7, 1, {})), "");
}

TEST_F(PageTablesTest, PagesUsedExceedsEveryPageIdEverUsed) {
  EXPECT_EQ(tables_.pages_used(), 0);
  EXPECT_EQ(take(step(0, 0, 0, 6, {7, 3}, true)), "");
  EXPECT_EQ(tables_.pages_used(), 8);
  EXPECT_EQ(take(step(1, 0, 0, 2, {4}, true)), "");
  EXPECT_EQ(tables_.pages_used(), 8);
}

TEST_F(PageTablesTest, AStepThatIsNotTheNextIsRefused) {
  EXPECT_EQ(take(step(7, 0, 0, 1, {1}, true)), "");
  for (const uint64_t number : {uint64_t{0}, uint64_t{7}, uint64_t{9}, ~uint64_t{0}}) {
    EXPECT_THAT(take(step(number, 0, 1, 1, {})), HasSubstr("must be the one after step 7"));
  }
  EXPECT_EQ(take(step(8, 0, 1, 1, {})), "");
}

TEST_F(PageTablesTest, AStepThatDoesNotFollowTheSlotIsRefusedAndChangesNothing) {
  EXPECT_EQ(take(step(0, 0, 0, 6, {7, 3}, true)), "");
  EXPECT_THAT(take(step(1, 0, 5, 1, {})), HasSubstr("first_position must be 6 to 6, found 5"));
  EXPECT_THAT(take(step(1, 0, 7, 1, {})), HasSubstr("first_position must be 6 to 6, found 7"));
  EXPECT_THAT(take(step(1, 1, 3, 1, {2})), HasSubstr("first_position must be 0 to 0, found 3"));
  EXPECT_THAT(take(step(1, 0, 6, 3, {})), HasSubstr("number of new pages must be 1 to 8, found 0"));
  EXPECT_THAT(take(step(1, 0, 6, 1, {1, 2, 3, 4, 5, 6, 7, 8, 9})),
              HasSubstr("number of new pages must be 0 to 8, found 9"));
  EXPECT_THAT(take(step(1, 0, 6, 3, {20})), HasSubstr("page must be 0 to 19, found 20"));
  EXPECT_THAT(take(step(1, -1, 0, 1, {1}, true)), HasSubstr("slot must be 0 to 1, found -1"));
  EXPECT_THAT(take(step(1, 2, 0, 1, {1}, true)), HasSubstr("slot must be 0 to 1, found 2"));
  EXPECT_EQ(take(step(1, 0, 6, 3, {5})), "");
  EXPECT_THAT(tables_.of(0), ElementsAre(7, 3, 5));
}

TEST_F(PageTablesTest, ASequenceWithStateBlocksBeginsAtZeroInASlotWithABlock) {
  PageTables tables(limits(), {.pages = 20, .sequences = 1}, true);
  const auto check = [&](const cluster::Step& step) { return message_of(tables.check(step)); };
  EXPECT_THAT(check(step(0, 0, 4, 1, {1, 2}, true)),
              HasSubstr("first_position must be 0 to 0, found 4"));
  EXPECT_THAT(check(step(0, 1, 0, 1, {1}, true)), HasSubstr("slot must be 0 to 0, found 1"));
  EXPECT_EQ(check(step(0, 0, 0, 5, {1, 2}, true)), "");
  tables.take(step(0, 0, 0, 5, {1, 2}, true));
  EXPECT_EQ(check(step(1, 0, 5, 1, {})), "");
}

TEST_F(PageTablesTest, TheLengthOfRotaryFrequenciesStaysThatOfTheFirstStep) {
  cluster::Step first = step(0, 1, 0, 2, {1}, true), second = step(1, 1, 2, 1, {});
  first.mutable_sequences(0)->set_rope_length(-1);
  EXPECT_THAT(take(first), HasSubstr("rope_length must be 0 to 16777216, found -1"));
  first.mutable_sequences(0)->set_rope_length(5);
  EXPECT_EQ(take(first), "");
  EXPECT_THAT(take(second), HasSubstr("rope_length must be 5 to 5, found 0"));
  second.mutable_sequences(0)->set_rope_length(5);
  EXPECT_EQ(take(second), "");
}

TEST_F(PageTablesTest, APrefixIsComputedInItsSequencesFirstStep) {
  const auto with_prefix = [](cluster::Step step, int64_t rows, int64_t held = 0) {
    step.mutable_sequences(0)->set_prefix_rows(rows);
    step.mutable_sequences(0)->set_held_position(held);
    return step;
  };
  const cluster::Step first = step(0, 1, 0, 4, {1}, true), second = step(1, 1, 4, 1, {2});
  EXPECT_THAT(take(with_prefix(first, 5)), HasSubstr("prefix_rows must be 0 to 4, found 5"));
  EXPECT_THAT(take(with_prefix(first, -1)), HasSubstr("prefix_rows must be 0 to 4, found -1"));
  EXPECT_THAT(take(with_prefix(first, 3, 40)),
              HasSubstr("held_position must be 0 to 39, found 40"));
  EXPECT_THAT(take(with_prefix(step(0, 1, 4, 1, {1, 2}, true), 1)),
              HasSubstr("prefix_rows must be 0 to 0, found 1"));
  EXPECT_EQ(take(with_prefix(first, 3, 2)), "");
  EXPECT_THAT(take(with_prefix(second, 4)), HasSubstr("prefix_rows must be 3 to 3, found 4"));
  EXPECT_EQ(take(with_prefix(second, 3, 2)), "");
}

TEST_F(PageTablesTest, AStepHasOnlyOneSequencePerSlot) {
  cluster::Step twice = step(0, 1, 0, 1, {1}, true);
  *twice.add_sequences() = twice.sequences(0);
  EXPECT_THAT(take(twice), HasSubstr("sequence 1: slot 1 has another sequence in this step"));
  twice.mutable_sequences(1)->set_slot(0);
  EXPECT_EQ(take(twice), "");
}

}  // namespace
}  // namespace lockstep

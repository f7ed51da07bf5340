// SPDX-License-Identifier: Apache-2.0
// Invalid steps with one wrong field each, and the views of valid ones.
#include "worker/steps/step_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <tuple>

#include "base/status.h"
#include "proto/logit_edits.h"
#include "tests/support/steps.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

StepLimits limits() {
  StepLimits limits{.vocab = 100, .hidden = 8, .slice_columns = 100};
  limits.limits.set_rows(8);
  limits.limits.set_outputs(3);
  limits.limits.set_sequences(2);
  limits.limits.set_context(40);
  limits.limits.set_page_tokens(16);
  return limits;
}

PageTables tables() {
  return PageTables(limits().limits, {.pages = 5, .sequences = limits().limits.sequences()}, false);
}

cluster::Step honest_step() {
  cluster::Step step;
  add_rows(step, {1, 99, 0}, 30, {4, 0, 1});
  add_rows(step, {7, -1}, 0, {2});
  step.set_embeddings(std::string(32, '\0'));
  add_edit(3, 1, 0, step.mutable_outputs(1)->mutable_edits());
  add_edit(99, 1.5f, -1, step.mutable_outputs(1)->mutable_edits());
  cluster::LogitEdits* shared = step.add_shared_edits();
  for (const int32_t id : {2, 3, 50, 99}) add_edit(id, 2, 0.5f, shared);
  step.mutable_outputs(0)->set_shared_edits(1);
  step.mutable_outputs(1)->set_shared_edits(1);
  step.mutable_outputs(1)->set_mask(std::string(16, '\xff'));
  return step;
}

struct Lie {
  const char* name;
  const char* message;
  std::function<void(cluster::Step&)> change;
};
class InvalidStepTest : public ::testing::TestWithParam<Lie> {};

TEST_P(InvalidStepTest, AnInvalidStepIsRefusedAndTheFaultIsNamed) {
  cluster::Step step = honest_step();
  ASSERT_EQ(message_of(check_step(step, limits(), tables())), "");
  GetParam().change(step);
  const absl::Status status = check_step(step, limits(), tables());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(message_of(status), HasSubstr(GetParam().message));
}

using S = cluster::Step&;

INSTANTIATE_TEST_SUITE_P(
    Step, InvalidStepTest,
    ::testing::ValuesIn(std::vector<Lie>{
        {"TokenBeyondVocab", "token of row 1 must be", [](S s) { s.set_tokens(1, 100); }},
        {"TokenNegative", "token of row 1 must be", [](S s) { s.set_tokens(1, -2); }},
        {"EmbeddingsMissing", "need 32 bytes of embeddings, found 0",
         [](S s) { s.clear_embeddings(); }},
        {"EmbeddingsUnrequested", "0 rows with token -1", [](S s) { s.set_tokens(4, 3); }},
        {"TooManyRows", "rows must be at most 8",
         [](S s) {
           for (int i = 0; i < 4; ++i) s.add_tokens(1);
         }},
        {"RowsOutsideSequences", "must add up to 6 tokens, found 5", [](S s) { s.add_tokens(1); }},
        {"TooManySequences", "sequences must be at most 2",
         [](S s) { *s.add_sequences() = cluster::StepSequence(s.sequences(0)); }},
        {"NoRowsInSequence", "sequence 1: rows must be 1",
         [](S s) { s.mutable_sequences(1)->set_rows(0); }},
        {"HugeRowsInSequence", "sequence 1: rows must be",
         [](S s) { s.mutable_sequences(1)->set_rows(INT64_MAX); }},
        {"PositionNegative", "first_position must be",
         [](S s) { s.mutable_sequences(0)->set_first_position(-1); }},
        {"PositionBeyondContext", "first_position must be 0 to 37, found 38",
         [](S s) { s.mutable_sequences(0)->set_first_position(38); }},
        {"PositionOverflows", "first_position must be",
         [](S s) { s.mutable_sequences(0)->set_first_position(INT64_MAX); }},
        {"PagesTooFew", "number of new pages must be 3",
         [](S s) { s.mutable_sequences(0)->mutable_pages()->RemoveLast(); }},
        {"PageNegative", "page must be 0 to 4, found -1",
         [](S s) { s.mutable_sequences(0)->set_pages(1, -1); }},
        {"PageBeyondLast", "page must be 0 to 4, found 5",
         [](S s) { s.mutable_sequences(0)->set_pages(1, 5); }},
        {"TooManyOutputs", "outputs must be at most 3",
         [](S s) {
           for (int i = 0; i < 2; ++i) s.add_outputs()->set_row(4);
         }},
        {"OutputBeyondRows", "output 1: row must", [](S s) { s.mutable_outputs(1)->set_row(5); }},
        {"OutputNegative", "output 0: row must", [](S s) { s.mutable_outputs(0)->set_row(-1); }},
        {"OutputDescends", "output 1: row must", [](S s) { s.mutable_outputs(1)->set_row(0); }},
        {"TemperatureNegative", "temperature must be",
         [](S s) { s.mutable_outputs(0)->set_temperature(-1); }},
        {"TemperatureNan", "temperature must be",
         [](S s) { s.mutable_outputs(0)->set_temperature(NAN); }},
        {"TopNegative", "output 0: top_count must be",
         [](S s) { s.mutable_outputs(0)->set_top_count(-1); }},
        {"RawTopNegative", "raw_top_count must be",
         [](S s) { s.mutable_outputs(0)->set_raw_top_count(-1); }},
        {"RawIdBeyondVocab", "raw_ids must be in the vocabulary, found 100",
         [](S s) { s.mutable_outputs(0)->add_raw_ids(100); }},
        {"MaskShort", "mask must be", [](S s) { s.mutable_outputs(1)->set_mask("12345678"); }},
        {"EditTwice", "edits must have ids ascending",
         [](S s) { s.mutable_outputs(1)->mutable_edits()->set_ids(1, 3); }},
        {"EditBeyondVocab", "edits must have ids ascending to 99, found 100",
         [](S s) { s.mutable_outputs(1)->mutable_edits()->set_ids(1, 100); }},
        {"EditNegative", "edits must have ids",
         [](S s) { s.mutable_outputs(1)->mutable_edits()->set_ids(0, -5); }},
        {"RepetitionNan", "edit of id 99 must have valid numbers",
         [](S s) { s.mutable_outputs(1)->mutable_edits()->set_repetition(1, NAN); }},
        {"RepetitionZero", "edit of id 3 must have valid numbers, found 0",
         [](S s) { s.mutable_outputs(1)->mutable_edits()->set_repetition(0, 0); }},
        {"EditWithoutAdd", "output 1: edits must have 2 numbers of each kind, found 2, 1",
         [](S s) { s.mutable_outputs(1)->mutable_edits()->mutable_add()->RemoveLast(); }},
        {"EditWithoutRepetition", "output 1: edits must have 2 numbers of each kind, found 1, 2",
         [](S s) { s.mutable_outputs(1)->mutable_edits()->mutable_repetition()->RemoveLast(); }},
        {"SharedEditTwice", "shared edits 0: edits must have ids ascending",
         [](S s) { s.mutable_shared_edits(0)->set_ids(1, 2); }},
        {"SharedEditsMissing", "output 0: shared_edits must be 0 or a list of the step's, found 2",
         [](S s) { s.mutable_outputs(0)->set_shared_edits(2); }},
        {"SharedEditsNegative", "output 0: shared_edits must be",
         [](S s) { s.mutable_outputs(0)->set_shared_edits(-1); }},
    }),
    [](const auto& test) { return test.param.name; });

TEST(StepBuffersTest, BuffersHoldTheRowsOfAllSequencesEndToEnd) {
  const cluster::Step step = honest_step();
  PageTables known = tables();
  known.take(step);
  StepBuffers buffers(limits());
  const StepView& view = buffers.take(step, known);
  EXPECT_EQ(view.rows, 5);
  EXPECT_THAT(std::vector<int32_t>(view.positions, view.positions + 5),
              ::testing::ElementsAre(30, 31, 32, 0, 1));
  EXPECT_THAT(std::vector<int32_t>(view.sequence_of_row, view.sequence_of_row + 5),
              ::testing::ElementsAre(0, 0, 0, 1, 1));
  EXPECT_EQ(view.sequences[1].first_row, 3);
  EXPECT_EQ(view.sequences[0].pages[2], 1);
  EXPECT_EQ(view.outputs[1].mask[1], ~uint64_t{0});
}

TEST(StepBuffersTest, AnOutputsOwnEditsReplaceSharedOnesAndOtherRanksIdsAreLeftOut) {
  const cluster::Step step = honest_step();
  PageTables known = tables();
  known.take(step);
  const auto edits_of = [](const OutputSpec& output) {
    std::vector<std::tuple<int32_t, float, float>> edits;
    for (int64_t i = 0; i < output.edit_count; ++i) {
      const LogitEdit& edit = output.edits[i];
      edits.emplace_back(edit.id, edit.repetition, edit.add);
    }
    return edits;
  };
  using Edits = std::vector<std::tuple<int32_t, float, float>>;
  StepBuffers whole(limits());
  const StepView& view = whole.take(step, known);
  EXPECT_EQ(edits_of(view.outputs[0]),
            (Edits{{2, 2, 0.5f}, {3, 2, 0.5f}, {50, 2, 0.5f}, {99, 2, 0.5f}}));
  EXPECT_EQ(edits_of(view.outputs[1]),
            (Edits{{2, 2, 0.5f}, {3, 1, 0}, {50, 2, 0.5f}, {99, 1.5f, -1}}));
  StepLimits second_rank = limits();
  second_rank.slice_begin = 64;
  second_rank.slice_columns = 36;
  StepBuffers half(second_rank);
  EXPECT_EQ(edits_of(half.take(step, known).outputs[1]), (Edits{{99, 1.5f, -1}}));
}

TEST(StepBuffersTest, CandidatesAreLimitedToTheNumberOfIds) {
  cluster::Step step = honest_step();
  step.mutable_outputs(0)->set_top_count(INT32_MAX);
  PageTables known = tables();
  known.take(step);
  StepBuffers buffers(limits());
  EXPECT_EQ(buffers.take(step, known).outputs[0].top_count, 100);
}

TEST(StepBuffersTest, OneRowMayHaveTwoOutputs) {
  cluster::Step step = honest_step();
  step.mutable_outputs(0)->set_row(4);
  EXPECT_EQ(message_of(check_step(step, limits(), tables())), "");
}

}  // namespace
}  // namespace lockstep

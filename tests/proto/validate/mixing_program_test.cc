// SPDX-License-Identifier: Apache-2.0
// A hand-made program with the operators of RWKV's layers: valid as it is, and broken in one way at
// a time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"
#include "proto/print.h"
#include "proto/validate/validate.h"
#include "tests/proto/validate/mutation.h"
#include "tests/support/tiny_program.h"

namespace lockstep {
namespace {

using program::Program;
using P = Program&;
using ::testing::HasSubstr;

constexpr int64_t kVocab = 100, kHidden = 8;
constexpr int64_t kHeads = 2, kDim = 4;

int block(ProgramBuilder& b, const char* name, int64_t rows, int64_t cols) {
  program::State& state = *b.program.add_states();
  state.set_name(name);
  state.set_dtype(program::F32);
  state.mutable_block()->set_rows(rows);
  state.mutable_block()->set_cols(cols);
  return b.program.states_size() - 1;
}

int row_of(ProgramBuilder& b, const char* name) {
  return b.weight(name, program::NORM, 1, kHidden, 0, kHidden);
}

int recurrence(ProgramBuilder& b, int x, int decay) {
  const int out = b.value("past", kHidden);
  program::RecurrenceAttrs& attributes =
      *b.add(program::RECURRENCE, {x, x, x, decay, x, x}, {}, {out})
           .mutable_attributes()
           ->mutable_recurrence();
  attributes.set_heads(kHeads);
  attributes.set_key_heads(kHeads);
  attributes.set_k_dim(kDim);
  attributes.set_v_dim(kDim);
  for (int head = 0; head < kHeads; ++head) attributes.add_key_head_of(head);
  attributes.set_state(block(b, "matrix", kHidden, kDim));
  return out;
}

// The program is embed, shift, broadcast, lerp, recurrence, head_dot, expand_heads, wkv, head.
Program mixing_program() {
  ProgramBuilder b(0, 1, kVocab, kHidden);
  const int embedding = b.weight("embed.weight", program::EMBEDDING, kVocab, kHidden, 0, kVocab);
  const int x = b.value("x", kHidden), before = b.value("before", kHidden);
  b.add(program::EMBED, {}, {embedding}, {x}).mutable_attributes()->mutable_embed();
  b.add(program::SHIFT, {x}, {}, {before})
      .mutable_attributes()
      ->mutable_block()
      ->set_state(block(b, "row", 1, kHidden));
  const int share = b.value("share", kHidden), mixed = b.value("mixed", kHidden);
  b.add(program::BROADCAST, {}, {row_of(b, "mix")}, {share});
  b.add(program::LERP, {x, before, share}, {}, {mixed});
  const int past = recurrence(b, mixed, share), own = b.value("own", kHidden);
  b.add(program::HEAD_DOT, {past, mixed, share, mixed}, {}, {own})
      .mutable_attributes()
      ->mutable_heads()
      ->set_heads(kHeads);
  const int head_values = b.columns(own, 0, kHeads), wide = b.value("wide", kHidden);
  program::HeadsAttrs& expand = *b.add(program::EXPAND_HEADS, {head_values}, {}, {wide})
                                     .mutable_attributes()
                                     ->mutable_heads();
  expand.set_heads(kHeads);
  expand.set_out_dim(kDim);
  const int mean = b.value("mean", kHidden), last = b.value("last", kHidden, kOutputRows);
  b.add(program::WKV, {wide, mixed}, {row_of(b, "decay"), row_of(b, "first")}, {mean})
      .mutable_attributes()
      ->mutable_block()
      ->set_state(block(b, "sums", 3, kHidden));
  b.add(program::SELECT_ROWS, {mean}, {}, {last});
  const int head = b.weight("head.weight", program::HEAD_WEIGHT, kVocab, kHidden, 0, kVocab);
  const int logits = b.value("logits", kVocab, kOutputRows);
  b.add(program::LINEAR, {last}, {head}, {logits});
  b.add(program::TOP_CANDIDATES, {logits}, {}, {}).mutable_attributes()->mutable_top_candidates();
  return b.program;
}

program::BlockAttrs& shift_of(P p) {
  return *find(p, program::SHIFT).mutable_attributes()->mutable_block();
}
program::BlockAttrs& wkv_of(P p) {
  return *find(p, program::WKV).mutable_attributes()->mutable_block();
}
program::RecurrenceAttrs& recurrence_of(P p) {
  return *find(p, program::RECURRENCE).mutable_attributes()->mutable_recurrence();
}
program::HeadsAttrs& dot_of(P p) {
  return *find(p, program::HEAD_DOT).mutable_attributes()->mutable_heads();
}

program::HeadsAttrs& expand_of(P p) {
  return *find(p, program::EXPAND_HEADS).mutable_attributes()->mutable_heads();
}

TEST(MixingProgramTest, TheProgramIsValidAndPrintsItsAttributes) {
  Program program = mixing_program();
  EXPECT_EQ(message_of(validate(program)), "");
  EXPECT_THAT(to_text(program), HasSubstr("{state 0}"));
  EXPECT_THAT(to_text(program),
              HasSubstr("{heads 2 key_heads 2 k_dim 4 v_dim 4 state 1 key_head_of [0, 1]}"));
  recurrence_of(program).set_out_before(true);
  EXPECT_THAT(to_text(program), HasSubstr("v_dim 4 out_before state 1"));
}

TEST(MixingProgramTest, ChangesAndADecayForEachStateRowAreOptional) {
  Program program = mixing_program();
  program::Instruction& instruction = find(program, program::RECURRENCE);
  instruction.mutable_inputs()->RemoveLast();
  instruction.mutable_inputs()->RemoveLast();
  EXPECT_EQ(message_of(validate(program)), "");
  const int decay = instruction.inputs(3).value();
  instruction.mutable_inputs(3)->set_value(0);
  EXPECT_EQ(message_of(validate(program)), "");
  EXPECT_NE(decay, 0);
}

class MixingMutationTest : public MutationTest {};

TEST_P(MixingMutationTest, ABrokenProgramIsRefusedAndTheFaultIsNamed) {
  Program program = mixing_program();
  GetParam().apply(program);
  const absl::Status status = validate(program);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(message_of(status), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Mixing, MixingMutationTest,
    ::testing::ValuesIn(std::vector<Mutation>{
        {"ShiftWithoutAState", "state must be", [](P p) { shift_of(p).set_state(-1); }},
        {"ShiftOfAnotherState", "rows of the block must be 1, found 8",
         [](P p) { shift_of(p).set_state(1); }},
        {"ShiftOfAWiderState", "columns of the block must be 8",
         [](P p) { p.mutable_states(0)->mutable_block()->set_cols(9); }},
        {"WkvOfAnotherState", "state", [](P p) { wkv_of(p).set_state(0); }},
        {"WkvOfTwoSums", "rows of the block must be 3",
         [](P p) { p.mutable_states(2)->mutable_block()->set_rows(2); }},
        {"WkvOfAShortDecay", "columns of decay must be 8",
         [](P p) {
           weight_named(p, "decay").set_cols(7);
           weight_named(p, "decay").mutable_pieces(0)->set_col_end(7);
         }},
        {"BroadcastOfAMatrix", "input 0 must be",
         [](P p) { find(p, program::BROADCAST).mutable_inputs(0)->set_weight(0); }},
        {"LerpWithoutAWeight", "inputs count",
         [](P p) { find(p, program::LERP).mutable_inputs()->RemoveLast(); }},
        {"HeadsNegative", "heads must be", [](P p) { recurrence_of(p).set_heads(-1); }},
        {"HeadsHuge", "heads must be", [](P p) { recurrence_of(p).set_heads(INT64_MAX); }},
        {"KeyHeadOfNone", "key_head_of must be",
         [](P p) { recurrence_of(p).set_key_head_of(1, 2); }},
        {"KeyHeadsAreTooFew", "key_head_of count must be 2",
         [](P p) { recurrence_of(p).mutable_key_head_of()->RemoveLast(); }},
        {"KeysTooWide", "k_dim must be 1 to", [](P p) { recurrence_of(p).set_k_dim(1 << 20); }},
        {"MatrixOfOtherHeads", "columns of q must be", [](P p) { recurrence_of(p).set_k_dim(2); }},
        {"MatrixTooSmall", "rows of the block must be 8",
         [](P p) { p.mutable_states(1)->mutable_block()->set_rows(7); }},
        {"AWithoutB", "a and b must be given together",
         [](P p) { find(p, program::RECURRENCE).mutable_inputs()->RemoveLast(); }},
        {"HeadsOfSomeColumns", "columns of x outside whole heads must be 0",
         [](P p) { dot_of(p).set_heads(3); }},
        {"ExpandedToOtherColumns", "columns of the output must be 6",
         [](P p) { expand_of(p).set_out_dim(3); }},
        {"ExpandedToNone", "out_dim must be 1 to", [](P p) { expand_of(p).set_out_dim(0); }},
        {"ExpandedHeadsHuge", "heads must be", [](P p) { expand_of(p).set_heads(INT64_MAX); }},
        {"ExpandedOtherHeads", "columns of x must be 4", [](P p) { expand_of(p).set_heads(4); }},
        {"NoHeads", "columns of x outside whole heads must be 0",
         [](P p) { dot_of(p).set_heads(0); }},
    }),
    mutation_name);

}  // namespace
}  // namespace lockstep

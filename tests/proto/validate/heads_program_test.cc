// SPDX-License-Identifier: Apache-2.0
// A hand-made program with operators that compute each head separately: valid as it is, and broken
// in one way at a time.
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
// For each of two heads of 4 columns, head_linear makes 5 columns from the first 3 columns, and
// join_heads puts all 4 columns after the 5.
constexpr int64_t kHeads = 2, kIn = 3, kOut = 5;

program::HeadsAttrs& heads_of(program::Instruction& instruction) {
  return *instruction.mutable_attributes()->mutable_heads();
}

// The program is embed, head_linear, join_heads, head.
Program heads_program() {
  ProgramBuilder b(0, 1, kVocab, kHidden);
  const int embedding = b.weight("embed.weight", program::EMBEDDING, kVocab, kHidden, 0, kVocab);
  const int x = b.value("x", kHidden);
  b.add(program::EMBED, {}, {embedding}, {x}).mutable_attributes()->mutable_embed();
  const int64_t size = kHeads * kIn * kOut;
  const int matrices = b.weight("kv_b.weight", program::NORM, 1, size, 0, size);
  const int made = b.value("made", kHeads * kOut);
  program::HeadsAttrs& attributes = heads_of(b.add(program::HEAD_LINEAR, {x}, {matrices}, {made}));
  attributes.set_heads(kHeads);
  attributes.set_in_dim(kIn);
  const int64_t cols = kHeads * kOut + kHidden;
  const int joined = b.value("joined", cols), last = b.value("last", cols, kOutputRows);
  heads_of(b.add(program::JOIN_HEADS, {made, x}, {}, {joined})).set_heads(kHeads);
  b.add(program::SELECT_ROWS, {joined}, {}, {last});
  const int head = b.weight("head.weight", program::HEAD_WEIGHT, kVocab, cols, 0, kVocab);
  const int logits = b.value("logits", kVocab, kOutputRows);
  b.add(program::LINEAR, {last}, {head}, {logits});
  b.add(program::TOP_CANDIDATES, {logits}, {}, {}).mutable_attributes()->mutable_top_candidates();
  return b.program;
}

program::HeadsAttrs& linear_of(P p) { return heads_of(find(p, program::HEAD_LINEAR)); }
program::HeadsAttrs& join_of(P p) { return heads_of(find(p, program::JOIN_HEADS)); }

TEST(HeadsProgramTest, TheProgramIsValidAndPrintsItsAttributes) {
  Program program = heads_program();
  EXPECT_EQ(message_of(validate(program)), "");
  EXPECT_THAT(to_text(program), HasSubstr("{heads 2 in_dim 3}"));
  linear_of(program).set_transposed(true);
  EXPECT_EQ(message_of(validate(program)), "");
  EXPECT_THAT(to_text(program), HasSubstr("{heads 2 in_dim 3 transposed}"));
}

class HeadsMutationTest : public MutationTest {};

TEST_P(HeadsMutationTest, ABrokenProgramIsRefusedAndTheFaultIsNamed) {
  Program program = heads_program();
  GetParam().apply(program);
  const absl::Status status = validate(program);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(message_of(status), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Heads, HeadsMutationTest,
    ::testing::ValuesIn(std::vector<Mutation>{
        {"HeadsNegative", "heads must be", [](P p) { linear_of(p).set_heads(-1); }},
        {"HeadsHuge", "heads must be", [](P p) { linear_of(p).set_heads(INT64_MAX); }},
        {"HeadsOfSomeColumns", "columns of x outside whole heads must be 0",
         [](P p) { linear_of(p).set_heads(3); }},
        {"NoHeads", "columns of x outside whole heads must be 0",
         [](P p) { linear_of(p).set_heads(0); }},
        {"InDimOfNothing", "in_dim must be 1 to", [](P p) { linear_of(p).set_in_dim(0); }},
        {"InDimWiderThanAHead", "in_dim must be 1 to 4", [](P p) { linear_of(p).set_in_dim(5); }},
        {"InDimHuge", "in_dim must be 0 to 1024", [](P p) { linear_of(p).set_in_dim(INT64_MAX); }},
        {"OtherMatrices", "columns of the weight must be 40",
         [](P p) { linear_of(p).set_in_dim(4); }},
        {"JoinedHeadsNegative", "heads must be", [](P p) { join_of(p).set_heads(-2); }},
        {"JoinedHeadsOfSomeColumns", "columns of x outside whole heads must be 0",
         [](P p) { join_of(p).set_heads(4); }},
        {"JoinedWithoutHeads", "columns of x outside whole heads must be 0",
         [](P p) { join_of(p).set_heads(0); }},
        {"JoinedWithItself", "columns of the output must be 20",
         [](P p) {
           *find(p, program::JOIN_HEADS).mutable_inputs(1) = find(p, program::JOIN_HEADS).inputs(0);
         }},
    }),
    mutation_name);

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "proto/print.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/tiny_program.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

TEST(PrintTest, TheTextListsATinyProgram) {
  EXPECT_EQ(to_text(tiny_program(1, 2)),
            R"(program version 5 model tiny rank 1 of 2 strategy gather numbers f32.v1
limits rows 16 outputs 4 sequences 4 context 64 page_tokens 16
vocab 100 hidden 8 arena_bytes 1728 shared_bytes 0
weights 3
  w0 embed.weight EMBEDDING f32 [36, 8] = embed.weight[64:100, 0:8] of [100, 8]
  w1 head.weight HEAD_WEIGHT f32 [36, 8] = head.weight[64:100, 0:8] of [100, 8]
  w2 head.bias BIAS f32 [1, 36] = head.bias[0:1, 64:100] of [100]
states 0
instructions 5
     0 %0 part: f32 [tokens, 8] @0 = embed(w0 embed.weight) {vocab_begin 64}
     1 %1 x: f32 [tokens, 8] @512 = all_reduce(%0 part)
     2 %2 rows: f32 [outputs, 8] @1024 = select_rows(%1 x)
     3 %3 logits: f32 [outputs, 36] @1152 = linear(%2 rows, w1 head.weight, w2 head.bias)
     4 top_candidates(%3 logits) {vocab_begin 64}
)");
}

TEST(PrintTest, TheTextShowsViewsMapsAndPieces) {
  const std::string text = to_text(layer_program(0, 2));
  EXPECT_THAT(text, HasSubstr("%4 qkv_view: f32 [tokens, 4] stride 12 @"));
  EXPECT_THAT(text, HasSubstr("{heads 1 kv_heads 1 head_dim 4 scale 0.5 state 0 kv_head_of [0]}"));
  EXPECT_THAT(text, HasSubstr("+ v.weight[0:4, 0:8] of [4, 8]"));
  EXPECT_THAT(text, HasSubstr("{boundaries [0, 4, 8]}"));
  EXPECT_THAT(text, HasSubstr("s0 layer f32 kv_heads 1 k_dim 4 v_dim 4"));
}

TEST(PrintTest, TheTextShowsSharedMemory) {
  const std::string text = to_text(shared_layer_program(1, 2));
  EXPECT_THAT(text, HasSubstr("arena_bytes 9856 shared_bytes 1728"));
  EXPECT_THAT(text, HasSubstr("attended: f32 [tokens, 4] stride 8 shared@16 = attention("));
  EXPECT_THAT(text, HasSubstr("heads: f32 [tokens, 8] shared@0 = all_gather("));
}

TEST(PrintTest, TheTextShowsTheFirstTwoAndTheLastOfManyPieces) {
  program::Program program;
  program::Weight& weight = *program.add_weights();
  weight.set_name("up");
  weight.set_matrices(20);
  for (int i = 0; i < 20; ++i) weight.add_pieces()->set_source("up." + std::to_string(i));
  const std::string text = to_text(program);
  EXPECT_THAT(text, HasSubstr("[0, 0] in 20 matrices = up.0[0:0, 0:0] of [] + up.1["));
  EXPECT_THAT(text, HasSubstr("of [] + 17 more + up.19[0:0, 0:0] of []\n"));
  while (weight.pieces_size() > 16) weight.mutable_pieces()->RemoveLast();
  for (const char* name : {"up.2[", "up.14[", "up.15["}) {
    EXPECT_THAT(to_text(program), HasSubstr(name));
  }
}

TEST(PrintTest, TheTextSaysIfRowsAreInPairs) {
  program::Program program;
  program.add_weights()->set_paired(true);
  EXPECT_THAT(to_text(program), HasSubstr("[0, 0] in pairs\n"));
}

TEST(PrintTest, ValuesOutOfRangeArePrinted) {
  program::Program program;
  program::Instruction& instruction = *program.add_instructions();
  instruction.set_op(static_cast<program::Op>(99));
  instruction.add_inputs()->set_value(-3);
  instruction.add_inputs()->set_weight(8);
  instruction.add_inputs();
  instruction.add_outputs(5);
  EXPECT_THAT(to_text(program), HasSubstr("%5? = op 99?(%-3?, w8?, ?)"));
}

}  // namespace
}  // namespace lockstep

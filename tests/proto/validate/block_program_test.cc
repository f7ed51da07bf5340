// SPDX-License-Identifier: Apache-2.0
// A hand-made program with state blocks: valid as it is, and broken in one way at a time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

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

constexpr int64_t kVocab = 100, kHidden = 8, kTaps = 3;
// Two value heads of 4 columns share one key head of 8.
constexpr int64_t kHeads = 2, kKeyDim = 8, kValueDim = 4;

int block(ProgramBuilder& b, const char* name, int64_t rows, int64_t cols) {
  program::State& state = *b.program.add_states();
  state.set_name(name);
  state.set_dtype(program::F32);
  state.mutable_block()->set_rows(rows);
  state.mutable_block()->set_cols(cols);
  return b.program.states_size() - 1;
}

// The weight is the source [8, 1, 3] as one row, the bias is the source [8].
int conv(ProgramBuilder& b, int x) {
  const int64_t size = kHidden * kTaps;
  const int weight = b.weight("conv.weight", program::NORM, 1, size, 0, size);
  program::Piece& piece = *b.program.mutable_weights(weight)->mutable_pieces(0);
  piece.set_flat(true);
  piece.clear_source_shape();
  for (const int64_t extent : {kHidden, int64_t{1}, kTaps}) piece.add_source_shape(extent);
  const int bias = b.weight("conv.bias", program::BIAS, 1, kHidden, 0, kHidden);
  const int out = b.value("mixed", kHidden);
  program::ConvAttrs& attributes =
      *b.add(program::CONV, {x}, {weight, bias}, {out}).mutable_attributes()->mutable_conv();
  attributes.set_taps(kTaps);
  attributes.set_state(block(b, "conv", kTaps - 1, kHidden));
  return out;
}

int delta_rule(ProgramBuilder& b, int x) {
  const int a = b.columns(x, 0, kHeads), decay = b.value("decay", kHeads);
  const int rate = b.weight("A_log", program::NORM, 1, kHeads, 0, kHeads);
  b.add(program::DECAY, {a}, {rate}, {decay});
  const int out = b.value("out", kHeads * kValueDim);
  program::RecurrenceAttrs& attributes =
      *b.add(program::DELTA_RULE, {x, x, x, decay, decay}, {}, {out})
           .mutable_attributes()
           ->mutable_recurrence();
  attributes.set_heads(kHeads);
  attributes.set_key_heads(1);
  attributes.set_k_dim(kKeyDim);
  attributes.set_v_dim(kValueDim);
  for (int64_t head = 0; head < kHeads; ++head) attributes.add_key_head_of(0);
  attributes.set_scale(0.5f);
  attributes.set_eps(1e-6f);
  attributes.set_state(block(b, "matrix", kHeads * kKeyDim, kValueDim));
  return out;
}

// The program is embed, conv, decay, delta_rule, head.
Program block_program() {
  ProgramBuilder b(0, 1, kVocab, kHidden);
  const int embedding = b.weight("embed.weight", program::EMBEDDING, kVocab, kHidden, 0, kVocab);
  const int x = b.value("x", kHidden), last = b.value("last", kHidden, kOutputRows);
  b.add(program::EMBED, {}, {embedding}, {x}).mutable_attributes()->mutable_embed();
  b.add(program::SELECT_ROWS, {delta_rule(b, conv(b, x))}, {}, {last});
  const int head = b.weight("head.weight", program::HEAD_WEIGHT, kVocab, kHidden, 0, kVocab);
  const int logits = b.value("logits", kVocab, kOutputRows);
  b.add(program::LINEAR, {last}, {head}, {logits});
  b.add(program::TOP_CANDIDATES, {logits}, {}, {}).mutable_attributes()->mutable_top_candidates();
  return b.program;
}

program::ConvAttrs& conv_of(P p) {
  return *find(p, program::CONV).mutable_attributes()->mutable_conv();
}
program::RecurrenceAttrs& rule_of(P p) {
  return *find(p, program::DELTA_RULE).mutable_attributes()->mutable_recurrence();
}
program::Piece& piece_of(P p) { return *weight_named(p, "conv.weight").mutable_pieces(0); }

TEST(BlockProgramTest, TheProgramIsValidAndHasBlocks) {
  const Program program = block_program();
  EXPECT_EQ(message_of(validate(program)), "");
  EXPECT_TRUE(has_blocks(program));
  EXPECT_FALSE(has_blocks(layer_program()));
  EXPECT_THAT(to_text(program), HasSubstr("s1 matrix f32 block [16, 4]"));
  EXPECT_THAT(to_text(program), HasSubstr("{taps 3 state 0}"));
}

class BlockMutationTest : public MutationTest {};

TEST_P(BlockMutationTest, ABrokenProgramIsRefusedAndTheFaultIsNamed) {
  Program program = block_program();
  GetParam().apply(program);
  const absl::Status status = validate(program);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(message_of(status), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Blocks, BlockMutationTest,
    ::testing::ValuesIn(std::vector<Mutation>{
        {"BlockDtype", "dtype must be float32",
         [](P p) { p.mutable_states(0)->set_dtype(program::BF16); }},
        {"BlockNegative", "rows must be 0 to 2^31",
         [](P p) { p.mutable_states(0)->mutable_block()->set_rows(-1); }},
        {"BlockHuge", "a block has at most 2^32 elements",
         [](P p) {
           p.mutable_states(0)->mutable_block()->set_rows(int64_t{1} << 31);
           p.mutable_states(0)->mutable_block()->set_cols(int64_t{1} << 31);
         }},
        {"PagesAsBlock", "state 0 must be a block, found KV pages",
         [](P p) {
           program::KvPages& kv = *p.mutable_states(0)->mutable_kv();
           kv.set_k_dim(4);
           kv.set_v_dim(4);
         }},
        {"StateOfTwo", "state 0 is written a second time", [](P p) { rule_of(p).set_state(0); }},
        {"NoState", "state must be", [](P p) { conv_of(p).set_state(2); }},
        {"ConvBlockRows", "rows of the block must be 2",
         [](P p) { p.mutable_states(0)->mutable_block()->set_rows(3); }},
        {"ConvBlockColumns", "columns of the block must be 8",
         [](P p) { p.mutable_states(0)->mutable_block()->set_cols(7); }},
        {"OneTap", "taps must be 2 to 16", [](P p) { conv_of(p).set_taps(1); }},
        {"ManyTaps", "taps must be 2 to 16", [](P p) { conv_of(p).set_taps(17); }},
        {"OtherTaps", "columns of the weight must be 32", [](P p) { conv_of(p).set_taps(4); }},
        {"FlatOutside", "piece columns of", [](P p) { piece_of(p).set_source_shape(0, 7); }},
        {"FlatRows", "piece rows of", [](P p) { piece_of(p).set_row_end(2); }},
        {"FlatHuge", "piece source_shape of",
         [](P p) { piece_of(p).set_source_shape(0, INT64_MAX); }},
        {"FlatTransposed", "piece flat of", [](P p) { piece_of(p).set_transpose(true); }},
        {"FlatMatrix", "piece flat of",
         [](P p) { weight_named(p, "head.weight").mutable_pieces(0)->set_flat(true); }},
        {"MatrixRows", "rows of the block must be 16",
         [](P p) { p.mutable_states(1)->mutable_block()->set_rows(8); }},
        {"KeyHeadBeyondLast", "key_head_of must be 0 to 0",
         [](P p) { rule_of(p).set_key_head_of(1, 1); }},
        {"KeyHeadsMissing", "key_head_of count must be 2",
         [](P p) { rule_of(p).clear_key_head_of(); }},
        {"KeyDim", "k_dim must be", [](P p) { rule_of(p).set_k_dim(INT64_MAX); }},
        {"ValueDim", "columns of v must be 6", [](P p) { rule_of(p).set_v_dim(3); }},
        {"HeadsNegative", "heads must be", [](P p) { rule_of(p).set_heads(-1); }},
        {"ScaleNan", "scale must be", [](P p) { rule_of(p).set_scale(NAN); }},
        {"NoEps", "eps must be above 0", [](P p) { rule_of(p).set_eps(0); }},
        {"DecayWeight", "columns of the weight must be 2",
         [](P p) {
           weight_named(p, "A_log").set_cols(1);
           weight_named(p, "A_log").mutable_pieces(0)->set_col_end(1);
         }},
    }),
    mutation_name);

}  // namespace
}  // namespace lockstep

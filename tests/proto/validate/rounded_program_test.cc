// SPDX-License-Identifier: Apache-2.0
// A hand-made program whose linear reads rounded rows; each rank rounds its part of the rows. The
// program is valid as it is, and broken in one way at a time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
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

constexpr int64_t kVocab = 100, kHidden = 80;  // The last group is short.

// The program is embed, a view of this rank's columns, round_groups, all_gather, linear, head.
Program rounded_program(int rank) {
  ProgramBuilder b(rank, 2, kVocab, kHidden);
  const std::vector<int64_t> cuts = {0, 32, kHidden};
  const int64_t own = cuts[rank + 1] - cuts[rank];
  const int embedding = b.weight("embed.weight", program::EMBEDDING, kVocab, kHidden, 0, kVocab);
  const int x = b.value("x", kHidden);
  b.add(program::EMBED, {}, {embedding}, {x}).mutable_attributes()->mutable_embed();
  const int part = b.value("part", own, kTokenRows, program::A8);
  b.add(program::ROUND_GROUPS, {b.columns(x, cuts[rank], cuts[rank + 1])}, {}, {part});
  const int whole = b.gather("whole", part, cuts);
  for (const int value : {part, whole}) {
    const int64_t cols = b.program.values(value).cols();
    b.program.mutable_values(value)->set_stride((cols + 31) / 32 * 32);
  }
  const int out = b.value("out", kHidden), last = b.value("last", kHidden, kOutputRows);
  const int weight =
      b.weight("o", program::LINEAR_WEIGHT, kHidden, kHidden, 0, kHidden, program::Q8);
  b.add(program::LINEAR, {whole}, {weight}, {out});
  b.add(program::SELECT_ROWS, {out}, {}, {last});
  const int head = b.weight("head", program::HEAD_WEIGHT, kVocab, kHidden, 0, kVocab);
  const int logits = b.value("logits", kVocab, kOutputRows);
  b.add(program::LINEAR, {last}, {head}, {logits});
  b.add(program::TOP_CANDIDATES, {logits}, {}, {}).mutable_attributes()->mutable_top_candidates();
  return b.program;
}

program::Value& gathered(P p) { return output_of(p, program::ALL_GATHER); }

void set_types(P p, program::DType dtype) {
  output_of(p, program::ROUND_GROUPS).set_dtype(dtype);
  gathered(p).set_dtype(dtype);
}

TEST(RoundedProgramTest, TheProgramIsValidOnEveryRank) {
  for (const int rank : {0, 1}) {
    const Program program = rounded_program(rank);
    EXPECT_EQ(message_of(validate(program)), "");
    EXPECT_THAT(to_text(program), HasSubstr("whole: a8 [tokens, 80] stride 96"));
  }
}

class RoundedMutationTest : public MutationTest {};

TEST_P(RoundedMutationTest, ABrokenProgramIsRefusedAndTheFaultIsNamed) {
  Program program = rounded_program(1);
  GetParam().apply(program);
  const absl::Status status = validate(program);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(message_of(status), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Rounded, RoundedMutationTest,
    ::testing::ValuesIn(std::vector<Mutation>{
        {"NotRounded", "dtype of an output must be a8, found bfloat16",
         [](P p) { output_of(p, program::ROUND_GROUPS).set_dtype(program::BF16); }},
        {"AWeightsType", "dtype must be float32, bfloat16, int32, a8 or a8p, found 6",
         [](P p) { set_types(p, program::Q8); }},
        {"OtherScales", "rounded rows must be as the weight's type rounds them",
         [](P p) { set_types(p, program::A8P); }},
        {"AWeightWithAScalePerRow", "rounded rows must be as the weight's type rounds them",
         [](P p) { weight_named(p, "o").set_dtype(program::Q8C); }},
        {"GatheredAsOtherScales", "dtype of an output must be a8, found a8p",
         [](P p) { gathered(p).set_dtype(program::A8P); }},
        {"HalfAGroup", "a boundary's remainder by the group must be 0, found 16",
         [](P p) {
           find(p, program::ALL_GATHER)
               .mutable_attributes()
               ->mutable_gather()
               ->set_boundaries(1, 16);
         }},
        {"StrideOfHalfAGroup", "stride must be whole groups of 32 columns, found 80",
         [](P p) { gathered(p).set_stride(80); }},
        {"OutOfTheArena", "such that all rows end within",
         [](P p) { gathered(p).set_offset_bytes(p.arena_bytes() - 64); }},
        {"OverWhatIsRead", "must be clear of value",
         [](P p) { output_of(p, program::ROUND_GROUPS).set_offset_bytes(0); }},
        {"RoundedTwice", "dtype of an input must be float32, found a8",
         [](P p) {
           program::Instruction& select = find(p, program::SELECT_ROWS);
           select.set_op(program::ROUND_GROUPS);
           select.mutable_inputs(0)->set_value(find(p, program::ALL_GATHER).outputs(0));
         }},
        {"RowsSelected", "dtype of an input must be float32 or bfloat16",
         [](P p) {
           find(p, program::SELECT_ROWS)
               .mutable_inputs(0)
               ->set_value(find(p, program::ALL_GATHER).outputs(0));
         }},
        {"FewerColumns", "columns of an output must be 48, found 32",
         [](P p) {
           output_of(p, program::ROUND_GROUPS).set_cols(32);
           output_of(p, program::ROUND_GROUPS).set_stride(32);
         }},
    }),
    mutation_name);

}  // namespace
}  // namespace lockstep

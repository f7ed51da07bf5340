// SPDX-License-Identifier: Apache-2.0
// validate() on a hand-made program with every operator: as it is, with each class of field broken
// (mutations_of_*_test.cc), and with random bytes changed.
#include "proto/validate/validate.h"

#include <gmock/gmock.h>
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/status.h"
#include "proto/print.h"
#include "tests/proto/validate/mutation.h"
#include "tests/support/tiny_program.h"

namespace lockstep {
namespace {

using program::Instruction;
using program::Program;
using ::testing::HasSubstr;

TEST(ValidateTest, HandMadeProgramsAreAccepted) {
  for (const Program& program : {tiny_program(), tiny_program(0, 2), tiny_program(1, 2),
                                 layer_program(), layer_program(0, 2), layer_program(1, 2),
                                 shared_layer_program(0, 2), shared_layer_program(1, 2)}) {
    EXPECT_EQ(message_of(validate(program)), "");
  }
}

TEST(ValidateTest, MatricesOfAStackAreAcceptedPlainAndTransposed) {
  Program program = layer_program(1, 2);
  program::Piece& plain = *weight_named(program, "embed.weight").mutable_pieces(0);
  plain.clear_source_shape();
  for (const int64_t size : {4, 25, 8}) plain.add_source_shape(size);
  EXPECT_EQ(message_of(validate(program)), "");
  // Rank 1's part of o has 4 rows and 8 columns. Here it is stored transposed, as columns 1 to 4 of
  // the third matrix of a stack [3, 8, 5].
  program::Piece& transposed = *weight_named(program, "o.weight").mutable_pieces(0);
  transposed.clear_source_shape();
  for (const int64_t size : {3, 8, 5}) transposed.add_source_shape(size);
  transposed.set_row_begin(16);
  transposed.set_row_end(24);
  transposed.set_col_begin(1);
  transposed.set_col_end(5);
  transposed.set_transpose(true);
  EXPECT_EQ(message_of(validate(program)), "");
}

TEST_P(MutationTest, ABrokenProgramIsRefusedAndTheFaultIsNamed) {
  Program program = layer_program(1, 2);
  GetParam().apply(program);
  const absl::Status status = validate(program);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(message_of(status), HasSubstr(GetParam().message));
  EXPECT_EQ(message_of(status).find('\n'), std::string::npos);
}

// An error about names chosen by the sender is one short line.
TEST(ValidateTest, HostileNamesGiveOneShortLine) {
  const std::string name = "a\nb\x1b[2J" + std::string(5000, 'x');
  const std::function<void(Program&)> mutations[] = {
      [&](Program& p) { p.set_strategy(name); },
      [&](Program& p) { p.mutable_row_domains(1)->set_of(program::TOKENS); },
      [&](Program& p) { p.mutable_values(0)->set_cols(-1); },
      [&](Program& p) { p.mutable_weights(0)->set_rows(-1); },
      [&](Program& p) { p.mutable_weights(0)->mutable_pieces(0)->set_row_end(-1); },
      [&](Program& p) { p.mutable_weights(0)->mutable_pieces(0)->set_col_end(1); },
      [&](Program& p) { p.mutable_weights(0)->clear_pieces(); },
      [&](Program& p) {
        p.mutable_weights(0)->set_dtype(program::Q8C);  // The piece lacks columns of the source.
        p.mutable_weights(0)->mutable_pieces(0)->set_source_shape(1, 9);
      },
      [&](Program& p) { p.mutable_states(0)->clear_kv(); },
      [&](Program& p) { output_of(p, program::MAP).set_shared(true); },
      [&](Program& p) {  // x is read later, when attention's result is added to it.
        const int64_t x = output_of(p, program::ALL_REDUCE).offset_bytes();
        output_of(p, program::RMS_NORM).set_offset_bytes(x);
      },
  };
  for (const auto& mutate : mutations) {
    Program program = shared_layer_program(1, 2);
    for (program::Value& value : *program.mutable_values()) value.set_name(name);
    for (program::State& state : *program.mutable_states()) state.set_name(name);
    for (program::RowDomain& rows : *program.mutable_row_domains()) rows.set_name(name);
    for (program::Weight& weight : *program.mutable_weights()) {
      weight.set_name(name);
      for (program::Piece& piece : *weight.mutable_pieces()) piece.set_source(name);
    }
    EXPECT_EQ(message_of(validate(program)), "");
    mutate(program);
    const std::string message = message_of(validate(program));
    EXPECT_THAT(message, HasSubstr("a?b?[2Jxxx"));
    EXPECT_TRUE(std::all_of(message.begin(), message.end(), [](char c) { return c >= ' '; }));
    EXPECT_LT(message.size(), 500u) << message;
  }
}

TEST(ValidateTest, ElementwiseOperatorsMayWorkInPlace) {
  Program program = layer_program();
  const Instruction& add = find(program, program::ADD);
  program.mutable_values(add.outputs(0))
      ->set_offset_bytes(program.values(add.inputs(0).value()).offset_bytes());
  EXPECT_EQ(message_of(validate(program)), "");
}

TEST(ValidateTest, APartMayBeAtItsPlaceInTheGatheredValue) {
  for (int rank = 0; rank < 2; ++rank) {
    Program program = layer_program(rank, 2);
    const Instruction& gather = find(program, program::ALL_GATHER, 1);
    const program::Value& whole = program.values(gather.outputs(0));
    program::Value& part = *program.mutable_values(gather.inputs(0).value());
    part.set_stride(whole.stride());
    part.set_offset_bytes(whole.offset_bytes() + rank * 4 * 4);
    EXPECT_EQ(message_of(validate(program)), "");
  }
}

// The error for shared_layer_program(1, 2) after `change`; "" if there is none.
std::string message_of_shared(const std::function<void(Program&)>& change) {
  Program program = shared_layer_program(1, 2);
  program.set_shared_bytes(program.arena_bytes());  // Enough for all shared values.
  change(program);
  return message_of(validate(program));
}

TEST(ValidateTest, OnlyGatheredValuesMayBeInSharedMemory) {
  EXPECT_THAT(message_of_shared([](Program& p) { output_of(p, program::MAP).set_shared(true); }),
              HasSubstr("is shared: it must be the result of all_gather, or a part"));
  EXPECT_THAT(message_of_shared([](Program& p) { output_of(p, program::EMBED).set_shared(true); }),
              HasSubstr("is shared: it must be written after the first collective"));
  EXPECT_THAT(
      message_of_shared([](Program& p) { output_of(p, program::COLUMNS).set_shared(true); }),
      HasSubstr("shared of the view"));
}

TEST(ValidateTest, SharedValuesAreKeptUntilTheNextCollective) {
  // The last read of the attention's whole rows is right after their gather, before the mlp's part
  // is written. Only the gather in between ensures that the other rank has read them, too.
  const auto lay_over = [](Program& p, int earlier, int later) {
    const int64_t to = output_of(p, program::ALL_GATHER, earlier).offset_bytes();
    program::Value& whole = output_of(p, program::ALL_GATHER, later);
    program::Value& part = *p.mutable_values(find(p, program::ALL_GATHER, later).inputs(0).value());
    part.set_offset_bytes(part.offset_bytes() - whole.offset_bytes() + to);
    whole.set_offset_bytes(to);
  };
  EXPECT_THAT(message_of_shared([&](Program& p) { lay_over(p, 0, 1); }), HasSubstr("clear of"));
  EXPECT_EQ(message_of_shared([&](Program& p) { lay_over(p, 0, 2); }), "");
}

TEST(ValidateTest, RandomBytesNeverCrashValidation) {
  constexpr uint32_t kSeed = 1;
  std::mt19937 random(kSeed);
  const google::protobuf::LogSilencer quiet;  // Silences warnings about names that are not UTF-8.
  const std::string valid[] = {layer_program(1, 2).SerializeAsString(),
                               shared_layer_program(1, 2).SerializeAsString()};
  int parsed = 0, accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = valid[round % 2];
    for (int changes = 1 + static_cast<int>(random() % 4); changes > 0; --changes) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    Program program;
    if (!program.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) continue;
    ++parsed;
    accepted += validate(program).ok();
    if (round % 16 < 2) (void)to_text(program);
  }
  EXPECT_GT(parsed, 0);
  RecordProperty("parsed", parsed);
  RecordProperty("accepted", accepted);
  std::printf("%d of 20000 parsed, %d accepted, seed %u\n", parsed, accepted, kSeed);
}

}  // namespace
}  // namespace lockstep

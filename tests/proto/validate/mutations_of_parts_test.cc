// SPDX-License-Identifier: Apache-2.0
// Header, limits, values, weights, states and operands, broken in one way at a time.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "proto/program.pb.h"
#include "proto/validate/validate.h"
#include "tests/proto/validate/mutation.h"

namespace lockstep {
namespace {

using program::Instruction;
using program::Program;
using P = Program&;

// Changes the source of the weight's only piece to a stack of matrices.
void stack(P p, const char* name, const std::array<int64_t, 3>& shape) {
  program::Piece& piece = *weight_named(p, name).mutable_pieces(0);
  piece.clear_source_shape();
  for (const int64_t size : shape) piece.add_source_shape(size);
}

INSTANTIATE_TEST_SUITE_P(
    Header, MutationTest,
    ::testing::ValuesIn(std::vector<Mutation>{
        {"Version", "version must be", [](P p) { p.set_version(kProgramVersion + 1); }},
        {"Ranks", "ranks must be", [](P p) { p.set_ranks(0); }},
        {"ManyRanks", "ranks must be", [](P p) { p.set_ranks(1 << 30); }},
        {"Rank", "rank must be", [](P p) { p.set_rank(2); }},
        {"NegativeRank", "rank must be", [](P p) { p.set_rank(-1); }},
        {"Strategy", "strategy must be", [](P p) { p.set_strategy("ring"); }},
        {"NumericClass", "numeric_class must", [](P p) { p.clear_numeric_class(); }},
        {"Vocab", "vocab must be", [](P p) { p.set_vocab(0); }},
        {"Hidden", "hidden must be", [](P p) { p.set_hidden(-8); }},
        {"Arena", "arena_bytes must be", [](P p) { p.set_arena_bytes(-1); }},
        {"HugeArena", "arena_bytes must be", [](P p) { p.set_arena_bytes(INT64_MAX); }},
        {"Shared", "shared_bytes must be", [](P p) { p.set_shared_bytes(-1); }},
        {"HugeShared", "shared_bytes must be", [](P p) { p.set_shared_bytes(INT64_MAX); }},
        {"NoRows", "limits.rows must be", [](P p) { p.mutable_limits()->set_rows(0); }},
        {"HugeRows", "limits.rows must be", [](P p) { p.mutable_limits()->set_rows(1 << 30); }},
        {"NoOutputs", "limits.outputs must be", [](P p) { p.mutable_limits()->set_outputs(0); }},
        {"NoSequences", "limits.sequences must",
         [](P p) { p.mutable_limits()->set_sequences(-1); }},
        {"Context", "limits.context must", [](P p) { p.mutable_limits()->set_context(1 << 30); }},
        {"PageTokens", "page_tokens must", [](P p) { p.mutable_limits()->set_page_tokens(0); }},
        {"SmallPage", "page_tokens must be 16, 32 or 64, found 8",
         [](P p) { p.mutable_limits()->set_page_tokens(8); }},
        {"PageNoDivisor", "page_tokens must be",
         [](P p) { p.mutable_limits()->set_page_tokens(24); }},
    }),
    mutation_name);

INSTANTIATE_TEST_SUITE_P(
    RowDomains, MutationTest,
    ::testing::ValuesIn(std::vector<Mutation>{
        {"NoDomains", "number of row_domains must be", [](P p) { p.clear_row_domains(); }},
        {"ManyDomains", "number of row_domains must be",
         [](P p) {
           for (int i = 0; i < 100; ++i) *p.add_row_domains() = p.row_domains(0);
         }},
        {"FirstIsTokens", "of must be tokens",
         [](P p) { p.mutable_row_domains(0)->set_of(program::OUTPUTS); }},
        {"SecondIsOutputs", "of must be outputs",
         [](P p) { p.mutable_row_domains(1)->set_of(program::TOKENS); }},
        {"UnknownCount", "of must be",
         [](P p) { p.mutable_row_domains(1)->set_of(static_cast<program::Rows>(7)); }},
        {"TwoRowsEach", "rows_each of a row domain must be 1 to 1",
         [](P p) { p.mutable_row_domains(0)->set_rows_each(2); }},
        {"NoRowsEach", "rows_each of a row domain must be 1 to",
         [](P p) {
           *p.add_row_domains() = p.row_domains(0);
           p.mutable_row_domains(2)->set_rows_each(0);
         }},
    }),
    mutation_name);

INSTANTIATE_TEST_SUITE_P(
    Values, MutationTest,
    ::testing::ValuesIn(std::vector<Mutation>{
        {"Dtype", "dtype must be float32, bfloat16, int32, a8 or a8p",
         [](P p) { p.mutable_values(0)->set_dtype(program::F16); }},
        {"DtypeOfIds", "must be float32, found int32",
         [](P p) { p.mutable_values(0)->set_dtype(program::I32); }},
        {"UnknownDtype", "dtype must be",
         [](P p) { p.mutable_values(0)->set_dtype(static_cast<program::DType>(77)); }},
        {"RowsKind", "rows must be", [](P p) { p.mutable_values(0)->set_rows(2); }},
        {"NegativeCols", "cols must be", [](P p) { p.mutable_values(0)->set_cols(-1); }},
        {"HugeCols", "cols must be", [](P p) { p.mutable_values(0)->set_cols(INT64_MAX); }},
        {"StrideBelowCols", "stride must be", [](P p) { p.mutable_values(0)->set_stride(7); }},
        {"HugeStride", "stride must be", [](P p) { p.mutable_values(0)->set_stride(INT64_MAX); }},
        {"NegativeOffset", "offset_bytes must be",
         [](P p) { p.mutable_values(0)->set_offset_bytes(-64); }},
        {"UnevenOffset", "offset_bytes must be",
         [](P p) { p.mutable_values(0)->set_offset_bytes(4); }},
        {"OffsetBeyondArena", "offset_bytes must be",
         [](P p) { p.mutable_values(0)->set_offset_bytes((p.arena_bytes() + 63) / 64 * 64); }},
        {"OffsetOverflows", "offset_bytes must be",
         [](P p) { p.mutable_values(0)->set_offset_bytes(INT64_MAX - 63); }},
        {"ArenaTooSmall", "offset_bytes must be",
         [](P p) { p.set_arena_bytes(p.arena_bytes() - 64); }},
        {"OffsetBeyondShared", "within arena_bytes or shared_bytes",
         [](P p) { p.mutable_values(0)->set_shared(true); }},
        {"RowsWithoutRoom", "offset_bytes must be",
         [](P p) { p.mutable_limits()->set_rows(1 << 20); }},
    }),
    mutation_name);

INSTANTIATE_TEST_SUITE_P(
    Weights, MutationTest,
    ::testing::ValuesIn(std::vector<Mutation>{
        {"NoRole", "role must be", [](P p) { p.mutable_weights(0)->set_role(program::NO_ROLE); }},
        {"UnknownRole", "role must be",
         [](P p) { p.mutable_weights(0)->set_role(static_cast<program::Role>(99)); }},
        {"WeightDtype", "dtype must be",
         [](P p) { p.mutable_weights(0)->set_dtype(program::I32); }},
        {"NormInF16", "dtype must be float32",
         [](P p) { weight_named(p, "norm1.weight").set_dtype(program::F16); }},
        {"NormInBf16", "dtype must be float32",
         [](P p) { weight_named(p, "norm1.weight").set_dtype(program::BF16); }},
        {"NegativeRows", "rows must be", [](P p) { p.mutable_weights(0)->set_rows(-1); }},
        {"HugeWeight", "must be",
         [](P p) {
           p.mutable_weights(0)->set_rows(int64_t{1} << 31);
           p.mutable_weights(0)->set_cols(int64_t{1} << 31);
         }},
        {"TwoRowsOfNorm", "rows must be 1",
         [](P p) { weight_named(p, "norm1.weight").set_rows(2); }},
        {"PairsOfOddRows", "pairs of one matrix",
         [](P p) {
           program::Weight& weight = weight_named(p, "o.weight");
           weight.set_rows(weight.rows() - 1);
           weight.mutable_pieces(0)->set_row_end(weight.pieces(0).row_end() - 1);
           weight.set_paired(true);
         }},
        {"PairsOfMatrices", "pairs of one matrix",
         [](P p) {
           weight_named(p, "o.weight").set_matrices(2);
           weight_named(p, "o.weight").set_paired(true);
         }},
        {"PiecesTooFew", "pieces must add up", [](P p) { p.mutable_weights(0)->clear_pieces(); }},
        {"PieceTwice", "pieces must add up",
         [](P p) {
           program::Weight& weight = *p.mutable_weights(0);
           *weight.add_pieces() = program::Piece(weight.pieces(0));
         }},
        {"PieceNarrow", "must have 8 columns",
         [](P p) { p.mutable_weights(0)->mutable_pieces(0)->set_col_end(7); }},
        {"PieceTransposed", "must have 8 columns",
         [](P p) { p.mutable_weights(0)->mutable_pieces(0)->set_transpose(true); }},
        {"PieceOutsideRows", "piece rows of",
         [](P p) { p.mutable_weights(0)->mutable_pieces(0)->set_row_end(101); }},
        {"PieceBackwards", "piece rows of",
         [](P p) { p.mutable_weights(0)->mutable_pieces(0)->set_row_begin(INT64_MAX); }},
        {"PieceNegative", "piece columns of",
         [](P p) { p.mutable_weights(0)->mutable_pieces(0)->set_col_begin(-1); }},
        {"PieceUnnamed", "piece source of",
         [](P p) { p.mutable_weights(0)->mutable_pieces(0)->clear_source(); }},
        {"SourceWithoutShape", "source_shape",
         [](P p) { p.mutable_weights(0)->mutable_pieces(0)->clear_source_shape(); }},
        {"SourceOfFour", "source_shape of embed.weight must be of two or three",
         [](P p) {
           program::Piece& piece = *p.mutable_weights(0)->mutable_pieces(0);
           piece.add_source_shape(1);
           piece.add_source_shape(1);
         }},
        {"NormOfThree", "source_shape of norm1.weight must be of two or three",
         [](P p) {
           program::Piece& piece = *weight_named(p, "norm1.weight").mutable_pieces(0);
           piece.add_source_shape(1);
           piece.add_source_shape(8);
         }},
        {"StackTooLow", "piece rows of embed.weight must be ascending and inside",
         [](P p) {
           stack(p, "embed.weight", {3, 33, 8});
         }},
        {"StackTooNarrow", "piece columns of embed.weight must be ascending and inside",
         [](P p) {
           stack(p, "embed.weight", {4, 25, 7});
         }},
        {"StackNegative", "source_shape of embed.weight must be 0 to 2^31 each",
         [](P p) {
           stack(p, "embed.weight", {-4, -25, 8});
         }},
        {"HugeStack", "all matrices together",
         [](P p) {
           stack(p, "embed.weight", {int64_t{1} << 31, int64_t{1} << 31, 8});
         }},
        {"TransposedAcrossMatrices", "within one matrix of the stack",
         [](P p) {
           stack(p, "o.weight", {2, 4, 8});
           program::Piece& piece = *weight_named(p, "o.weight").mutable_pieces(0);
           piece.set_transpose(true);
           piece.set_row_begin(2);
           piece.set_row_end(6);
         }},
        {"SourceNegative", "source_shape",
         [](P p) { p.mutable_weights(0)->mutable_pieces(0)->set_source_shape(0, -5); }},
        {"MatrixPlusOne", "piece plus of",
         [](P p) { p.mutable_weights(0)->mutable_pieces(0)->set_plus(1); }},
        {"RowTransposed", "transpose",
         [](P p) { weight_named(p, "norm1.weight").mutable_pieces(0)->set_transpose(true); }},
        {"StateDtype", "program state 0",
         [](P p) { p.mutable_states(0)->set_dtype(program::NO_DTYPE); }},
        {"StateHeads", "kv_heads must be",
         [](P p) { p.mutable_states(0)->mutable_kv()->set_kv_heads(-1); }},
        {"StateKeyDim", "k_dim must be",
         [](P p) { p.mutable_states(0)->mutable_kv()->set_k_dim(INT64_MAX); }},
        {"StateValueDim", "v_dim must be",
         [](P p) { p.mutable_states(0)->mutable_kv()->set_v_dim(-1); }},
        {"StateOfNoKind", "kind must be", [](P p) { p.mutable_states(0)->clear_kv(); }},
    }),
    mutation_name);

INSTANTIATE_TEST_SUITE_P(
    Operands, MutationTest,
    ::testing::ValuesIn(std::vector<Mutation>{
        {"NoOp", "op must be", [](P p) { p.mutable_instructions(0)->clear_op(); }},
        {"UnknownOp", "op must be",
         [](P p) { p.mutable_instructions(0)->set_op(static_cast<program::Op>(-7)); }},
        {"OpThatIsKnownInEightBits", "op must be a known operator, found 271",
         [](P p) {
           const int number = program::TOP_CANDIDATES + 256;
           *p.add_instructions() = find(p, program::TOP_CANDIDATES);
           p.mutable_instructions(p.instructions_size() - 1)
               ->set_op(static_cast<program::Op>(number));
         }},
        {"TooFewInputs", "inputs count must be",
         [](P p) { find(p, program::LINEAR).mutable_inputs()->RemoveLast(); }},
        {"TooManyInputs", "inputs count must be",
         [](P p) { find(p, program::MAP).add_inputs()->set_value(0); }},
        {"TooManyOutputs", "outputs count must be",
         [](P p) { find(p, program::MAP).add_outputs(0); }},
        {"NoOutput", "outputs count must be", [](P p) { find(p, program::MAP).clear_outputs(); }},
        {"WeightAsValue", "must be a value, found a weight",
         [](P p) { find(p, program::MAP).mutable_inputs(0)->set_weight(0); }},
        {"ValueAsWeight", "must be a linear weight, found a value",
         [](P p) { find(p, program::LINEAR).mutable_inputs(1)->set_value(0); }},
        {"OperandOfNothing", "found nothing",
         [](P p) { find(p, program::LINEAR).mutable_inputs(0)->clear_kind(); }},
        {"WeightOfAnotherRole", "must be a norm weight, found EMBEDDING",
         [](P p) { find(p, program::RMS_NORM).mutable_inputs(1)->set_weight(0); }},
        {"ValueIndex", "input value must be",
         [](P p) { find(p, program::MAP).mutable_inputs(0)->set_value(p.values_size()); }},
        {"NegativeValueIndex", "input value must be",
         [](P p) { find(p, program::MAP).mutable_inputs(0)->set_value(-1); }},
        {"WeightIndex", "input weight must be",
         [](P p) { find(p, program::LINEAR).mutable_inputs(1)->set_weight(p.weights_size()); }},
        {"OutputIndex", "output value must be",
         [](P p) { find(p, program::MAP).set_outputs(0, INT32_MAX); }},
        {"ReadBeforeWritten", "is read before it is written",
         [](P p) {
           const int last = find(p, program::SELECT_ROWS).inputs(0).value();
           find(p, program::MAP).mutable_inputs(0)->set_value(last);
         }},
        {"WrittenTwice", "is written a second time",
         [](P p) { find(p, program::MUL).set_outputs(0, find(p, program::MAP).outputs(0)); }},
        {"NoAttributes", "attributes must be",
         [](P p) { find(p, program::RMS_NORM).clear_attributes(); }},
        {"OtherAttributes", "attributes must be",
         [](P p) { find(p, program::RMS_NORM).mutable_attributes()->mutable_rope(); }},
        {"NeedlessAttributes", "attributes must be",
         [](P p) { find(p, program::MUL).mutable_attributes()->mutable_norm(); }},
        {"NoFunction", "function must be 1 to 14, found 0",
         [](P p) {
           find(p, program::GATED).mutable_attributes()->mutable_map()->clear_function();
         }},
        {"FunctionThatIsKnownInEightBits", "function must be 1 to 14, found 258",
         [](P p) {
           find(p, program::MAP)
               .mutable_attributes()
               ->mutable_map()
               ->set_function(static_cast<program::Function>(program::GELU + 256));
         }},
        {"FactorOfAFunctionWithout", "factor must be 0 where the function has none",
         [](P p) { find(p, program::MAP).mutable_attributes()->mutable_map()->set_factor(2); }},
        {"CapOfZero", "factor must be above 0",
         [](P p) {
           find(p, program::MAP).mutable_attributes()->mutable_map()->set_function(program::CAP);
         }},
        {"FactorOfInfinity", "factor must be a finite number",
         [](P p) {
           program::MapAttrs& map = *find(p, program::GATED).mutable_attributes()->mutable_map();
           map.set_function(program::SCALE);
           map.set_factor(HUGE_VALF);
         }},
        {"SlopesOfOtherHeads", "slopes count must be",
         [](P p) {
           program::AttentionAttrs& attention =
               *find(p, program::ATTENTION).mutable_attributes()->mutable_attention();
           for (int i = 0; i <= attention.heads(); ++i) attention.add_slopes(1);
         }},
        {"ASlopeOfInfinity", "slopes must be a finite number",
         [](P p) {
           program::AttentionAttrs& attention =
               *find(p, program::ATTENTION).mutable_attributes()->mutable_attention();
           for (int i = 0; i < attention.heads(); ++i) attention.add_slopes(HUGE_VALF);
         }},
        {"OffsetOfTokens", "offset of tokens must be 0",
         [](P p) { find(p, program::EMBED).mutable_attributes()->mutable_embed()->set_offset(2); }},
        {"FewerPositionsThanTheContext", "rows of the weight must be",
         [](P p) {
           program::EmbedAttrs& embed =
               *find(p, program::EMBED).mutable_attributes()->mutable_embed();
           embed.set_by_position(true);
           embed.set_vocab_begin(0);
           p.mutable_limits()->set_context(1 << 20);
         }},
        {"KindsThatDoNotDivideTheColumns", "interleaved",
         [](P p) { p.mutable_weights(0)->mutable_pieces(0)->set_interleaved(1 << 20); }},
        {"UnitRowsOfANorm", "unit_rows",
         [](P p) {
           for (program::Weight& weight : *p.mutable_weights()) {
             if (weight.role() == program::NORM) weight.mutable_pieces(0)->set_unit_rows(true);
           }
         }},
        {"NegativeScoreCap", "cap must be a finite number of 0 or more",
         [](P p) {
           find(p, program::ATTENTION).mutable_attributes()->mutable_attention()->set_cap(-1);
         }},
        {"OutputDtype", "dtype of an output must be float32",
         [](P p) { output_of(p, program::ROPE).set_dtype(program::BF16); }},
        {"InputDtype", "dtype of an input must be float32, found bfloat16",
         [](P p) {
           const int cast = find(p, program::CAST).outputs(0);
           find(p, program::SELECT_ROWS).set_op(program::MAP);
           Instruction& map = find(p, program::MAP, 1);
           *map.mutable_attributes() = find(p, program::MAP).attributes();
           map.mutable_inputs(0)->set_value(cast);
         }},
        {"GatherChangesDtype", "dtype of an output",
         [](P p) { output_of(p, program::ALL_GATHER).set_dtype(program::BF16); }},
        {"RowsDiffer", "rows of an output, a row domain, must be 0, found 1",
         [](P p) { output_of(p, program::MAP).set_rows(program::OUTPUTS); }},
        {"SelectKeepsRows", "rows of an output, a row domain, must be 1, found 0",
         [](P p) { output_of(p, program::SELECT_ROWS).set_rows(program::TOKENS); }},
        {"NoCandidates", "one top_candidates instruction, found 0",
         [](P p) { p.mutable_instructions()->RemoveLast(); }},
        {"CandidatesTwice", "one top_candidates instruction, found 2",
         [](P p) { *p.add_instructions() = Instruction(find(p, program::TOP_CANDIDATES)); }},
        {"AttentionTwice", "state 0 is written a second time",
         [](P p) {
           Instruction again = find(p, program::ATTENTION);
           *p.add_values() = p.values(again.outputs(0));
           again.set_outputs(0, p.values_size() - 1);
           *p.add_instructions() = again;
         }},
    }),
    mutation_name);

}  // namespace
}  // namespace lockstep

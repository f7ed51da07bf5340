// SPDX-License-Identifier: Apache-2.0
// Attributes, shapes and the memory plan, broken in one way at a time.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "proto/program.pb.h"
#include "tests/proto/validate/mutation.h"

namespace lockstep {
namespace {

using program::Instruction;
using program::Program;
using P = Program&;

program::AttentionAttrs& attention_of(P p) {
  return *find(p, program::ATTENTION).mutable_attributes()->mutable_attention();
}
program::GatherAttrs& gather_of(P p) {
  return *find(p, program::ALL_GATHER).mutable_attributes()->mutable_gather();
}
program::RopeTableAttrs& table_of(P p) {
  return *find(p, program::ROPE_TABLE).mutable_attributes()->mutable_rope_table();
}
program::RopeAttrs& rope_of(P p) {
  return *find(p, program::ROPE).mutable_attributes()->mutable_rope();
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, MutationTest,
    ::testing::ValuesIn(std::vector<Mutation>{
        {"EmbedWidth", "columns of the weight must be",
         [](P p) { p.set_hidden(9); }},
        {"EmbedBeyondVocab", "rows of the weight must be",
         [](P p) {
           find(p, program::EMBED).mutable_attributes()->mutable_embed()->set_vocab_begin(65);
         }},
        {"EmbedNegative", "vocab_begin must be",
         [](P p) {
           find(p, program::EMBED).mutable_attributes()->mutable_embed()->set_vocab_begin(-1);
         }},
        {"EmbedBothBesideAndByPosition", "by_position and beside must not both be set",
         [](P p) {
           program::EmbedAttrs& embed =
               *find(p, program::EMBED).mutable_attributes()->mutable_embed();
           embed.set_by_position(true);
           embed.set_beside(true);
         }},
        {"EmbedAbsentId", "absent_id must be",
         [](P p) {
           program::EmbedAttrs& embed =
               *find(p, program::EMBED).mutable_attributes()->mutable_embed();
           embed.set_beside(true);
           embed.set_absent_id(-1);
         }},
        {"LinearInput", "columns of the weight must be",
         [](P p) {
           program::Weight& gate = weight_named(p, "gate.weight");
           gate.set_cols(7);
           gate.mutable_pieces(0)->set_col_end(7);
         }},
        {"LinearOutput", "columns of the output must be",
         [](P p) { output_of(p, program::LINEAR, 1).set_cols(2); }},
        {"LinearBias", "columns of the bias must be",
         [](P p) {
           program::Weight& bias = weight_named(p, "head.bias");
           bias.set_cols(bias.cols() - 1);
           bias.mutable_pieces(0)->set_col_end(99);
         }},
        {"NormEps", "eps must", [](P p) {
           find(p, program::RMS_NORM).mutable_attributes()->mutable_norm()->set_eps(-1);
         }},
        {"NormEpsNan", "eps must be a finite number", [](P p) {
           find(p, program::RMS_NORM).mutable_attributes()->mutable_norm()->set_eps(NAN);
         }},
        {"HeadNormDim", "columns outside whole heads must be 0, found 4", [](P p) {
           find(p, program::HEAD_NORM).mutable_attributes()->mutable_norm()->set_head_dim(8);
         }},
        {"ElementwiseColumns", "columns of an", [](P p) {
           program::Value& value = output_of(p, program::MAP);
           value.set_cols(2);
         }},
        {"RopeTableWidth", "columns of the output must be",
         [](P p) { table_of(p).add_inv_freq(1); }},
        {"RopeTableNone", "inv_freq count", [](P p) { table_of(p).clear_inv_freq(); }},
        {"RopeTableInfinite", "inv_freq must be",
         [](P p) { table_of(p).set_inv_freq(0, INFINITY); }},
        {"RopeTableFactor", "factor must be", [](P p) { table_of(p).set_factor(NAN); }},
        {"RopeTableDynamic", "theta must be",
         [](P p) { table_of(p).set_dynamic_length(32); }},
        {"RopeTableLength", "dynamic_length must be",
         [](P p) { table_of(p).set_dynamic_length(-1); }},
        {"RopeTableSets", "inv_freq count must be 4, found 5",
         [](P p) {
           table_of(p).add_lengths(5);
           for (int i = 0; i < 3; ++i) table_of(p).add_inv_freq(1);
         }},
        {"RopeTableLengths", "a length, ascending, must be 6 to 16777216, found 5",
         [](P p) {
           for (const int64_t length : {5, 5}) table_of(p).add_lengths(length);
           for (int i = 0; i < 4; ++i) table_of(p).add_inv_freq(1);
         }},
        {"RopeTableDynamicSets", "lengths must be empty",
         [](P p) {
           table_of(p).add_lengths(5);
           for (int i = 0; i < 2; ++i) table_of(p).add_inv_freq(1);
           table_of(p).set_dynamic_length(32);
         }},
        {"RopeOddDim", "remainder by 2", [](P p) { rope_of(p).set_rotary_dim(3); }},
        {"RopeWide", "rotary_dim must be", [](P p) { rope_of(p).set_rotary_dim(6); }},
        {"RopeOtherTable", "columns of the table",
         [](P p) { rope_of(p).set_rotary_dim(2); }},
        {"RopeNoDim", "head_dim must be", [](P p) { rope_of(p).set_head_dim(0); }},
        {"AttentionState", "state must be", [](P p) { attention_of(p).set_state(1); }},
        {"AttentionNegativeState", "state must be", [](P p) { attention_of(p).set_state(-1); }},
        {"AttentionHeads", "columns of q must be", [](P p) { attention_of(p).set_heads(2); }},
        {"AttentionKvHeads", "kv_heads must be", [](P p) { attention_of(p).set_kv_heads(2); }},
        {"AttentionStateHeads", "kv_heads must be",
         [](P p) { p.mutable_states(0)->mutable_kv()->set_kv_heads(2); }},
        {"AttentionHeadDim", "head_dim must be", [](P p) { attention_of(p).set_head_dim(8); }},
        {"AttentionWithoutValues", "v_dim of the pages must be 4, found 0",
         [](P p) { p.mutable_states(0)->mutable_kv()->set_v_dim(0); }},
        {"AttentionValuesInKeysAndSeparate", "v_dim of the pages must be 0, found 4",
         [](P p) { attention_of(p).set_values_in_keys(true); }},
        {"AttentionValuesWiderThanTheirKeys", "v_dim must be",
         [](P p) {
           p.mutable_states(0)->mutable_kv()->set_v_dim(0);
           attention_of(p).set_values_in_keys(true);
           attention_of(p).set_v_dim(5);
         }},
        {"AttentionMap", "kv_head_of must be",
         [](P p) { attention_of(p).set_kv_head_of(0, 1); }},
        {"AttentionMapNegative", "kv_head_of must be",
         [](P p) { attention_of(p).set_kv_head_of(0, -1); }},
        {"AttentionMapShort", "kv_head_of count",
         [](P p) { attention_of(p).clear_kv_head_of(); }},
        {"AttentionScale", "scale must be",
         [](P p) { attention_of(p).set_scale(-INFINITY); }},
        {"AttentionWindow", "window must be", [](P p) { attention_of(p).set_window(-1); }},
        {"AttentionChunk", "chunk must be", [](P p) { attention_of(p).set_chunk(-1); }},
        {"AttentionReadsNothing", "state 0 is read before it is written",
         [](P p) { attention_of(p).set_read_only(true); }},
        {"GatherCount", "boundaries count",
         [](P p) { gather_of(p).add_boundaries(1000); }},
        {"GatherBegin", "first of the boundaries",
         [](P p) { gather_of(p).set_boundaries(0, 1); }},
        {"GatherDescends", "boundaries, ascending,",
         [](P p) { gather_of(p).set_boundaries(1, 1000); }},
        {"GatherWidth", "columns of the output",
         [](P p) { gather_of(p).set_boundaries(2, 9); }},
        {"GatherPart", "columns of the input",
         [](P p) { gather_of(p).set_boundaries(1, 3); }},
        {"ColumnsEnd", "end must be",
         [](P p) {
           find(p, program::COLUMNS).mutable_attributes()->mutable_columns()->set_end(1000);
         }},
        {"ColumnsBegin", "begin must be",
         [](P p) {
           find(p, program::COLUMNS).mutable_attributes()->mutable_columns()->set_begin(5);
         }},
        {"ColumnsOffset", "offset_bytes of the view",
         [](P p) {
           program::Value& view = output_of(p, program::COLUMNS);
           view.set_offset_bytes(view.offset_bytes() + 4);
         }},
        {"ColumnsStride", "stride of the view",
         [](P p) { output_of(p, program::COLUMNS).set_stride(10); }},
        {"CandidatesBegin", "vocab_begin's remainder",
         [](P p) {
           find(p, program::TOP_CANDIDATES)
               .mutable_attributes()
               ->mutable_top_candidates()
               ->set_vocab_begin(63);
         }},
        {"CandidatesBeyondVocab", "columns of the logits",
         [](P p) {
           find(p, program::TOP_CANDIDATES)
               .mutable_attributes()
               ->mutable_top_candidates()
               ->set_vocab_begin(128);
         }},
    }),
    mutation_name);

INSTANTIATE_TEST_SUITE_P(Memory, MutationTest,
                         ::testing::ValuesIn(std::vector<Mutation>{
                             {"OutputOverInputOfALinear", "must be clear of value",
                              [](P p) {
                                const Instruction& linear = find(p, program::LINEAR, 1);
                                p.mutable_values(linear.outputs(0))
                                    ->set_offset_bytes(
                                        p.values(linear.inputs(0).value()).offset_bytes());
                              }},
                             {"OutputOverWhatIsReadLater", "must be clear of value",
                              [](P p) {  // x is read later, when attention's result is added.
                                const int64_t x = output_of(p, program::ALL_REDUCE).offset_bytes();
                                output_of(p, program::RMS_NORM).set_offset_bytes(x);
                              }},
                             {"TwoOutputsInOnePlace", "must be clear of value",
                              [](P p) {
                                const Instruction& both = find(p, program::ADD_NORM);
                                p.mutable_values(both.outputs(1))
                                    ->set_offset_bytes(p.values(both.outputs(0)).offset_bytes());
                              }},
                             {"InPlaceShifted", "must be clear of value",
                              [](P p) {
                                const Instruction& add = find(p, program::ADD);
                                p.mutable_values(add.outputs(0))
                                    ->set_offset_bytes(
                                        p.values(add.inputs(0).value()).offset_bytes() + 64);
                              }},
                         }),
                         mutation_name);

}  // namespace
}  // namespace lockstep

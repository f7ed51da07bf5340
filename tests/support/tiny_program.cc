// SPDX-License-Identifier: Apache-2.0
#include "tests/support/tiny_program.h"

#include <utility>

#include "proto/row_domains.h"
#include "proto/validate/validate.h"

namespace lockstep {
namespace {

using program::Instruction;

constexpr int64_t kVocab = 100, kHidden = 8, kHeadDim = 4, kFfn = 6;

// The boundaries of the ranks' parts of `count` units.
std::vector<int64_t> cuts(int64_t count, int ranks) {
  return ranks == 1 ? std::vector<int64_t>{0, count} : std::vector<int64_t>{0, count / 2, count};
}
std::vector<int64_t> vocab_cuts(int ranks) {
  return ranks == 1 ? std::vector<int64_t>{0, kVocab} : std::vector<int64_t>{0, 64, kVocab};
}

int embed(ProgramBuilder& b, const std::vector<int64_t>& vocab) {
  const int rank = b.program.rank();
  const int weight =
      b.weight("embed.weight", program::EMBEDDING, kVocab, kHidden, vocab[rank], vocab[rank + 1]);
  const int part = b.value("part", kHidden), x = b.value("x", kHidden);
  b.add(program::EMBED, {}, {weight}, {part})
      .mutable_attributes()
      ->mutable_embed()
      ->set_vocab_begin(vocab[rank]);
  b.add(program::ALL_REDUCE, {part}, {}, {x});
  return x;
}

void norm_attributes(Instruction& instruction, int64_t head_dim = 0) {
  program::NormAttrs* norm = instruction.mutable_attributes()->mutable_norm();
  norm->set_eps(1e-5f);
  norm->set_head_dim(head_dim);
}

int rope(ProgramBuilder& b, int value, int table, int64_t cols) {
  const int out = b.value("turned", cols);
  program::RopeAttrs* attrs =
      b.add(program::ROPE, {value, table}, {}, {out}).mutable_attributes()->mutable_rope();
  attrs->set_head_dim(kHeadDim);
  attrs->set_rotary_dim(kHeadDim);
  return out;
}

int rope_table(ProgramBuilder& b) {
  const int table = b.value("table", kHeadDim);
  program::RopeTableAttrs* attrs =
      b.add(program::ROPE_TABLE, {}, {}, {table}).mutable_attributes()->mutable_rope_table();
  attrs->add_inv_freq(1);
  attrs->add_inv_freq(0.01f);
  attrs->set_factor(1);
  return table;
}

int attend(ProgramBuilder& b, int q, int k, int v, int64_t heads) {
  program::State* state = b.program.add_states();
  state->set_name("layer");
  state->set_dtype(program::F32);
  state->mutable_kv()->set_kv_heads(1);
  state->mutable_kv()->set_k_dim(kHeadDim);
  state->mutable_kv()->set_v_dim(kHeadDim);
  const int out = b.value("attended", heads * kHeadDim);
  program::AttentionAttrs* attrs =
      b.add(program::ATTENTION, {q, k, v}, {}, {out}).mutable_attributes()->mutable_attention();
  attrs->set_head_dim(kHeadDim);
  attrs->set_heads(heads);
  attrs->set_kv_heads(1);
  attrs->set_scale(0.5f);
  attrs->set_state(0);
  for (int64_t head = 0; head < heads; ++head) attrs->add_kv_head_of(0);
  return out;
}

int linear(ProgramBuilder& b, int x, int weight, const std::string& name) {
  const program::Weight& matrix = b.program.weights(weight);
  const int out = b.value(name, matrix.rows(), b.program.values(x).rows());
  b.add(program::LINEAR, {x}, {weight}, {out});
  return out;
}

// One linear whose weight has three pieces. Views of its output are q (this rank's heads), k and v.
int attention(ProgramBuilder& b, int x) {
  const int rank = b.program.rank(), ranks = b.program.ranks();
  const std::vector<int64_t> heads = cuts(2, ranks);
  const int64_t own = heads[rank + 1] - heads[rank];
  const int qkv_weight = b.weight("q.weight", program::LINEAR_WEIGHT, 2 * kHeadDim, kHidden,
                                  heads[rank] * kHeadDim, heads[rank + 1] * kHeadDim);
  for (const char* name : {"k.weight", "v.weight"}) {
    program::Weight* weight = b.program.mutable_weights(qkv_weight);
    program::Piece* piece = weight->add_pieces();
    piece->set_source(name);
    piece->add_source_shape(kHeadDim);
    piece->add_source_shape(kHidden);
    piece->set_row_end(kHeadDim);
    piece->set_col_end(kHidden);
    weight->set_rows(weight->rows() + kHeadDim);
  }
  const int qkv = linear(b, x, qkv_weight, "qkv");
  const int64_t q_cols = own * kHeadDim;
  const int q = b.columns(qkv, 0, q_cols);
  const int k = b.columns(qkv, q_cols, q_cols + kHeadDim);
  const int v = b.columns(qkv, q_cols + kHeadDim, q_cols + 2 * kHeadDim);
  const int q_norm = b.weight("q_norm.weight", program::NORM, 1, kHeadDim, 0, kHeadDim);
  const int normed = b.value("q_normed", q_cols);
  norm_attributes(b.add(program::HEAD_NORM, {q}, {q_norm}, {normed}), kHeadDim);
  const int table = rope_table(b);
  const int y = attend(b, rope(b, normed, table, q_cols), rope(b, k, table, kHeadDim), v, own);
  std::vector<int64_t> boundaries;
  boundaries.reserve(heads.size());
  for (const int64_t head : heads) boundaries.push_back(head * kHeadDim);
  const int whole = b.gather("heads", y, boundaries);
  const std::vector<int64_t> hidden = cuts(kHidden, ranks);
  const int o = b.weight("o.weight", program::LINEAR_WEIGHT, kHidden, 2 * kHeadDim, hidden[rank],
                         hidden[rank + 1]);
  return b.gather("attention", linear(b, whole, o, "o"), hidden);
}

// silu(gate) * up + gated(gate, up), cast to bfloat16, then a linear with bfloat16 weights.
int mlp(ProgramBuilder& b, int x) {
  const int rank = b.program.rank(), ranks = b.program.ranks();
  const std::vector<int64_t> ffn = cuts(kFfn, ranks), hidden = cuts(kHidden, ranks);
  const int64_t own = ffn[rank + 1] - ffn[rank];
  const auto matrix = [&](const char* name) {
    return b.weight(name, program::LINEAR_WEIGHT, kFfn, kHidden, ffn[rank], ffn[rank + 1]);
  };
  const int gate = linear(b, x, matrix("gate.weight"), "gate");
  const int up = linear(b, x, matrix("up.weight"), "up");
  const int silu = b.value("silu", own), mul = b.value("mul", own), gated = b.value("gated", own),
            sum = b.value("sum", own), cast = b.value("cast", own, program::TOKENS, program::BF16);
  const auto set_silu = [](program::Instruction& added) {
    added.mutable_attributes()->mutable_map()->set_function(program::SILU);
  };
  set_silu(b.add(program::MAP, {gate}, {}, {silu}));
  b.add(program::MUL, {silu, up}, {}, {mul});
  set_silu(b.add(program::GATED, {gate, up}, {}, {gated}));
  b.add(program::ADD, {mul, gated}, {}, {sum});
  b.add(program::CAST, {sum}, {}, {cast});
  const int whole = b.gather("inner", cast, ffn);
  const int down = b.weight("down.weight", program::LINEAR_WEIGHT, kHidden, kFfn, hidden[rank],
                            hidden[rank + 1], program::BF16);
  return b.gather("mlp", linear(b, whole, down, "down"), hidden);
}

void head(ProgramBuilder& b, int x, const std::vector<int64_t>& vocab) {
  const int rank = b.program.rank();
  const int64_t own = vocab[rank + 1] - vocab[rank];
  const int weight =
      b.weight("head.weight", program::HEAD_WEIGHT, kVocab, kHidden, vocab[rank], vocab[rank + 1]);
  const int bias = b.weight("head.bias", program::BIAS, 1, kVocab, vocab[rank], vocab[rank + 1]);
  const int rows = b.value("rows", kHidden, program::OUTPUTS);
  const int logits = b.value("logits", own, program::OUTPUTS);
  b.add(program::SELECT_ROWS, {x}, {}, {rows});
  b.add(program::LINEAR, {rows}, {weight, bias}, {logits});
  b.add(program::TOP_CANDIDATES, {logits}, {}, {})
      .mutable_attributes()
      ->mutable_top_candidates()
      ->set_vocab_begin(vocab[rank]);
}

}  // namespace

ProgramBuilder::ProgramBuilder(int rank, int ranks, int64_t vocab, int64_t hidden) {
  program.set_version(kProgramVersion);
  program.set_model("tiny");
  program.set_numeric_class("f32.v1");
  program.set_rank(rank);
  program.set_ranks(ranks);
  program.set_strategy("gather");
  program.set_vocab(vocab);
  program.set_hidden(hidden);
  for (const program::RowDomain& domain : default_row_domains()) {
    *program.add_row_domains() = domain;
  }
  program::Limits* limits = program.mutable_limits();
  limits->set_rows(16);
  limits->set_outputs(4);
  limits->set_sequences(4);
  limits->set_context(64);
  limits->set_page_tokens(16);
}

int ProgramBuilder::value(const std::string& name, int64_t cols, int rows, program::DType dtype) {
  program::Value* value = program.add_values();
  value->set_name(name);
  value->set_dtype(dtype);
  value->set_rows(rows);
  value->set_cols(cols);
  value->set_stride(cols);
  value->set_offset_bytes(program.arena_bytes());
  const int64_t bytes = max_rows(program.row_domains(rows), program.limits()) * cols *
                        (dtype == program::BF16 ? 2 : 4);
  program.set_arena_bytes(program.arena_bytes() + (bytes + 63) / 64 * 64);
  return program.values_size() - 1;
}

int ProgramBuilder::columns(int value, int64_t begin, int64_t end) {
  program::Value view = program.values(value);
  view.set_name(view.name() + "_view");
  view.set_cols(end - begin);
  view.set_offset_bytes(view.offset_bytes() + begin * (view.dtype() == program::F32 ? 4 : 2));
  *program.add_values() = view;
  const int index = program.values_size() - 1;
  program::ColumnsAttrs* attrs =
      add(program::COLUMNS, {value}, {}, {index}).mutable_attributes()->mutable_columns();
  attrs->set_begin(begin);
  attrs->set_end(end);
  return index;
}

int ProgramBuilder::weight(const std::string& name, program::Role role, int64_t source_rows,
                           int64_t cols, int64_t row_begin, int64_t row_end, program::DType dtype) {
  const bool row = role == program::BIAS || role == program::NORM;
  program::Weight* weight = program.add_weights();
  weight->set_name(name);
  weight->set_role(role);
  weight->set_dtype(dtype);
  weight->set_rows(row ? 1 : row_end - row_begin);
  weight->set_cols(row ? row_end - row_begin : cols);
  program::Piece* piece = weight->add_pieces();
  piece->set_source(name);
  if (!row) piece->add_source_shape(source_rows);
  piece->add_source_shape(cols);
  piece->set_row_begin(row ? 0 : row_begin);
  piece->set_row_end(row ? 1 : row_end);
  piece->set_col_begin(row ? row_begin : 0);
  piece->set_col_end(row ? row_end : cols);
  return program.weights_size() - 1;
}

Instruction& ProgramBuilder::add(program::Op op, const std::vector<int>& values,
                                 const std::vector<int>& weights, const std::vector<int>& outputs) {
  Instruction& instruction = *program.add_instructions();
  instruction.set_op(op);
  for (const int value : values) instruction.add_inputs()->set_value(value);
  for (const int weight : weights) instruction.add_inputs()->set_weight(weight);
  for (const int output : outputs) instruction.add_outputs(output);
  return instruction;
}

int ProgramBuilder::gather(const std::string& name, int value,
                           const std::vector<int64_t>& boundaries) {
  const program::Value& part = program.values(value);
  const int out = this->value(name, boundaries.back(), part.rows(), part.dtype());
  program::GatherAttrs* attrs =
      add(program::ALL_GATHER, {value}, {}, {out}).mutable_attributes()->mutable_gather();
  for (const int64_t boundary : boundaries) attrs->add_boundaries(boundary);
  return out;
}

program::Program tiny_program(int rank, int ranks) {
  ProgramBuilder b(rank, ranks, kVocab, kHidden);
  const std::vector<int64_t> vocab = vocab_cuts(ranks);
  const int x = embed(b, vocab);
  head(b, x, vocab);
  return b.program;
}

cluster::Assignment random_assignment(program::Program program) {
  cluster::Assignment assignment;
  *assignment.mutable_program() = std::move(program);
  assignment.set_random_weights(true);
  assignment.set_max_pages(16);
  return assignment;
}

program::Program layer_program(int rank, int ranks) {
  ProgramBuilder b(rank, ranks, kVocab, kHidden);
  const std::vector<int64_t> vocab = vocab_cuts(ranks);
  const int x = embed(b, vocab);
  const auto norm = [&b](const char* name) {
    return b.weight(name, program::NORM, 1, kHidden, 0, kHidden);
  };
  const int normed = b.value("normed", kHidden);
  norm_attributes(b.add(program::RMS_NORM, {x}, {norm("norm1.weight")}, {normed}));
  const int attended = attention(b, normed);
  const int sum = b.value("sum", kHidden), normed2 = b.value("normed2", kHidden);
  norm_attributes(b.add(program::ADD_NORM, {x, attended}, {norm("norm2.weight")}, {sum, normed2}));
  const int inner = mlp(b, normed2);
  const int last = b.value("last", kHidden), normed3 = b.value("normed3", kHidden);
  norm_attributes(b.add(program::ADD_NORM, {sum, inner}, {norm("norm3.weight")}, {last, normed3}));
  head(b, normed3, vocab);
  return b.program;
}

program::Program shared_layer_program(int rank, int ranks) {
  program::Program program = layer_program(rank, ranks);
  for (const Instruction& instruction : program.instructions()) {
    if (instruction.op() != program::ALL_GATHER) continue;
    program::Value& whole = *program.mutable_values(instruction.outputs(0));
    program::Value& part = *program.mutable_values(instruction.inputs(0).value());
    const int64_t element = whole.dtype() == program::F32 ? 4 : 2;
    whole.set_shared(true);
    whole.set_offset_bytes(program.shared_bytes());
    part.set_shared(true);
    part.set_stride(whole.stride());
    part.set_offset_bytes(whole.offset_bytes() +
                          instruction.attributes().gather().boundaries(rank) * element);
    const int64_t bytes = program.limits().rows() * whole.cols() * element;
    program.set_shared_bytes(program.shared_bytes() + (bytes + 63) / 64 * 64);
  }
  return program;
}

}  // namespace lockstep

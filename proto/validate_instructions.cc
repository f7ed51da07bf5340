// SPDX-License-Identifier: Apache-2.0
// Instructions of a Program against one table: a row an operator says what its operands are and
// what of their types and shapes is common; a small function checks what is the operator's own.
#include <cmath>
#include <string>
#include <vector>

#include "base/op.h"
#include "base/status.h"
#include "proto/validate.h"
#include "proto/validate_parts.h"

namespace lockstep {
namespace {

using program::Attributes;
using program::Instruction;
using program::Program;

// An instruction whose indices are in range, with its operands looked up.
struct Call {
  const Program& program;
  const Instruction& instruction;
  int index;
  std::vector<const program::Value*> in;
  std::vector<const program::Weight*> weights;
  std::vector<const program::Value*> out;

  const Attributes& attributes() const { return instruction.attributes(); }

  absl::Status fail(const std::string& what) const {
    return invalid_argument("program instruction {} ({}): {}", index,
                            op_name(static_cast<Op>(instruction.op())), what);
  }
  // The workhorse: `name` must be `wanted`.
  absl::Status expect(const char* name, int64_t found, int64_t wanted) const {
    if (found == wanted) return absl::OkStatus();
    return fail(fmt::format("{} must be {}, found {}", name, wanted, found));
  }
  absl::Status expect_within(const char* name, int64_t found, int64_t least, int64_t most) const {
    if (found >= least && found <= most) return absl::OkStatus();
    return fail(fmt::format("{} must be {} to {}, found {}", name, least, most, found));
  }
  absl::Status expect_finite(const char* name, float found) const {
    if (std::isfinite(found)) return absl::OkStatus();
    return fail(fmt::format("{} must be a finite number, found {}", name, found));
  }
};

absl::Status check_eps(const Call& call) {
  const float eps = call.attributes().norm().eps();
  RETURN_IF_ERROR(call.expect_finite("eps", eps));
  return eps >= 0 ? absl::OkStatus() : call.fail("eps must not be negative");
}

absl::Status check_embed(const Call& call) {
  const int64_t begin = call.attributes().embed().vocab_begin();
  const int64_t vocab = call.program.vocab();
  RETURN_IF_ERROR(
      call.expect("columns of the weight", call.weights[0]->cols(), call.program.hidden()));
  RETURN_IF_ERROR(call.expect("columns of the output", call.out[0]->cols(), call.program.hidden()));
  RETURN_IF_ERROR(call.expect_within("vocab_begin", begin, 0, vocab));
  return call.expect_within("rows of the weight", call.weights[0]->rows(), 0, vocab - begin);
}

absl::Status check_linear(const Call& call) {
  RETURN_IF_ERROR(
      call.expect("columns of the weight", call.weights[0]->cols(), call.in[0]->cols()));
  RETURN_IF_ERROR(
      call.expect("columns of the output", call.out[0]->cols(), call.weights[0]->rows()));
  if (call.weights.size() == 1) return absl::OkStatus();
  return call.expect("columns of the bias", call.weights[1]->cols(), call.weights[0]->rows());
}

absl::Status check_norm(const Call& call) {
  RETURN_IF_ERROR(check_eps(call));
  return call.expect("columns of the weight", call.weights[0]->cols(), call.in[0]->cols());
}

absl::Status check_head_norm(const Call& call) {
  RETURN_IF_ERROR(check_eps(call));
  const int64_t head_dim = call.attributes().norm().head_dim();
  RETURN_IF_ERROR(call.expect_within("head_dim", head_dim, 1, kMaxColumns));
  RETURN_IF_ERROR(call.expect("columns of the weight", call.weights[0]->cols(), head_dim));
  return call.expect("columns beside whole heads", call.in[0]->cols() % head_dim, 0);
}

absl::Status check_rope_table(const Call& call) {
  const program::RopeTableAttrs& attrs = call.attributes().rope_table();
  RETURN_IF_ERROR(call.expect_within("inv_freq count", attrs.inv_freq_size(), 1, 1 << 16));
  RETURN_IF_ERROR(call.expect("columns of the output", call.out[0]->cols(),
                              2 * int64_t{attrs.inv_freq_size()}));
  for (const float frequency : attrs.inv_freq()) {
    // The sine takes angles below 2^30: positions are below kMaxContext.
    RETURN_IF_ERROR(call.expect_finite("inv_freq", frequency));
    if (std::abs(frequency) > 32) return call.fail("inv_freq must be within -32 to 32");
  }
  RETURN_IF_ERROR(call.expect_finite("factor", attrs.factor()));
  RETURN_IF_ERROR(call.expect_finite("dynamic_factor", attrs.dynamic_factor()));
  RETURN_IF_ERROR(call.expect_finite("theta", attrs.theta()));
  RETURN_IF_ERROR(call.expect_within("dynamic_length", attrs.dynamic_length(), 0, kMaxContext));
  if (attrs.dynamic_length() == 0) return absl::OkStatus();
  if (attrs.theta() < 1) return call.fail("theta must be 1 or more where dynamic_length is set");
  if (attrs.dynamic_factor() < 1) return call.fail("dynamic_factor must be 1 or more");
  return call.expect_within("inv_freq count of a dynamic table", attrs.inv_freq_size(), 2, 1 << 16);
}

absl::Status check_rope(const Call& call) {
  const program::RopeAttrs& attrs = call.attributes().rope();
  RETURN_IF_ERROR(call.expect_within("head_dim", attrs.head_dim(), 1, kMaxColumns));
  RETURN_IF_ERROR(call.expect_within("rotary_dim", attrs.rotary_dim(), 2, attrs.head_dim()));
  RETURN_IF_ERROR(call.expect("rotary_dim's remainder by 2", attrs.rotary_dim() % 2, 0));
  RETURN_IF_ERROR(call.expect("columns of the table", call.in[1]->cols(), attrs.rotary_dim()));
  return call.expect("columns beside whole heads", call.in[0]->cols() % attrs.head_dim(), 0);
}

absl::Status check_attention(const Call& call) {
  const program::AttentionAttrs& attrs = call.attributes().attention();
  RETURN_IF_ERROR(call.expect_within("state", attrs.state(), 0, call.program.states_size() - 1));
  const program::State& state = call.program.states(attrs.state());
  RETURN_IF_ERROR(call.expect("head_dim", attrs.head_dim(), state.head_dim()));
  RETURN_IF_ERROR(call.expect("kv_heads", attrs.kv_heads(), state.kv_heads()));
  RETURN_IF_ERROR(call.expect_within("heads", attrs.heads(), 0, 1 << 16));
  const int64_t q_cols = attrs.heads() * attrs.head_dim();
  const int64_t kv_cols = attrs.kv_heads() * attrs.head_dim();
  RETURN_IF_ERROR(call.expect("columns of q", call.in[0]->cols(), q_cols));
  RETURN_IF_ERROR(call.expect("columns of k", call.in[1]->cols(), kv_cols));
  RETURN_IF_ERROR(call.expect("columns of v", call.in[2]->cols(), kv_cols));
  RETURN_IF_ERROR(call.expect("columns of the output", call.out[0]->cols(), q_cols));
  RETURN_IF_ERROR(call.expect("kv_head_of count", attrs.kv_head_of_size(), attrs.heads()));
  for (const int32_t head : attrs.kv_head_of()) {
    RETURN_IF_ERROR(call.expect_within("kv_head_of", head, 0, attrs.kv_heads() - 1));
  }
  RETURN_IF_ERROR(call.expect_finite("scale", attrs.scale()));
  return call.expect_within("window", attrs.window(), 0, int64_t{1} << 31);
}

absl::Status check_top_candidates(const Call& call) {
  const int64_t begin = call.attributes().top_candidates().vocab_begin();
  const int64_t vocab = call.program.vocab();
  RETURN_IF_ERROR(call.expect_within("vocab_begin", begin, 0, vocab + kProgramBlock));
  RETURN_IF_ERROR(call.expect("vocab_begin's remainder by 64", begin % kProgramBlock, 0));
  // Without columns a share may begin at the end of the last block, behind the last id.
  if (call.in[0]->cols() == 0) return absl::OkStatus();
  return call.expect_within("columns of the logits", call.in[0]->cols(), 0, vocab - begin);
}

absl::Status check_all_gather(const Call& call) {
  const auto& boundaries = call.attributes().gather().boundaries();
  const int ranks = call.program.ranks();
  const int rank = call.program.rank();
  RETURN_IF_ERROR(call.expect("boundaries count", boundaries.size(), ranks + 1));
  RETURN_IF_ERROR(call.expect("first of the boundaries", boundaries[0], 0));
  for (int i = 0; i < ranks; ++i) {
    RETURN_IF_ERROR(call.expect_within("boundaries, ascending,", boundaries[i + 1], boundaries[i],
                                       kMaxColumns));
  }
  RETURN_IF_ERROR(call.expect("columns of the output", call.out[0]->cols(), boundaries[ranks]));
  return call.expect("columns of the input", call.in[0]->cols(),
                     boundaries[rank + 1] - boundaries[rank]);
}

absl::Status check_columns(const Call& call) {
  const program::ColumnsAttrs& attrs = call.attributes().columns();
  const program::Value& x = *call.in[0];
  const program::Value& view = *call.out[0];
  RETURN_IF_ERROR(call.expect_within("end", attrs.end(), 0, x.cols()));
  RETURN_IF_ERROR(call.expect_within("begin", attrs.begin(), 0, attrs.end()));
  RETURN_IF_ERROR(call.expect("columns of the view", view.cols(), attrs.end() - attrs.begin()));
  RETURN_IF_ERROR(call.expect("shared of the view", view.shared(), x.shared()));
  RETURN_IF_ERROR(call.expect("stride of the view", view.stride(), x.stride()));
  return call.expect("offset_bytes of the view", view.offset_bytes(),
                     x.offset_bytes() + attrs.begin() * element_bytes(x.dtype()));
}

absl::Status no_more(const Call&) { return absl::OkStatus(); }

// What an operand is.
enum class Slot : uint8_t { kNothing, kValue, kEmbedding, kMatrix, kNorm, kBias };
constexpr const char* kSlotNames[] = {"nothing",         "a value",       "an embedding",
                                      "a linear weight", "a norm weight", "a bias"};
// Types of the values: inputs float32, or float32 or bfloat16 but all alike.
enum class In : uint8_t { kF32, kAny };
enum class Out : uint8_t { kF32, kBF16, kSame };
// Rows of the values, all alike but for select_rows.
enum class RowKind : uint8_t { kSame, kTokens, kOutputs, kSelect };
// Columns of the outputs: each as the first input's, or the operator's own affair.
enum class Cols : uint8_t { kLikeFirst, kOwn };

struct Signature {
  Op op;
  Attributes::KindCase attributes;
  Slot inputs[3];
  int required;  // Inputs that can't be left out.
  int outputs;
  In in;
  Out out;
  RowKind rows;
  Cols cols;
  absl::Status (*check)(const Call&);
};

constexpr auto kNoAttributes = Attributes::KIND_NOT_SET;
constexpr Slot kNone = Slot::kNothing, kValue = Slot::kValue;
// clang-format off
constexpr Signature kSignatures[] = {
    {Op::kEmbed, Attributes::kEmbed, {Slot::kEmbedding, kNone, kNone}, 1, 1,
     In::kF32, Out::kF32, RowKind::kTokens, Cols::kOwn, check_embed},
    {Op::kLinear, kNoAttributes, {kValue, Slot::kMatrix, Slot::kBias}, 2, 1,
     In::kAny, Out::kF32, RowKind::kSame, Cols::kOwn, check_linear},
    {Op::kRmsNorm, Attributes::kNorm, {kValue, Slot::kNorm, kNone}, 2, 1,
     In::kF32, Out::kF32, RowKind::kSame, Cols::kLikeFirst, check_norm},
    {Op::kHeadNorm, Attributes::kNorm, {kValue, Slot::kNorm, kNone}, 2, 1,
     In::kF32, Out::kF32, RowKind::kSame, Cols::kLikeFirst, check_head_norm},
    {Op::kRopeTable, Attributes::kRopeTable, {kNone, kNone, kNone}, 0, 1,
     In::kF32, Out::kF32, RowKind::kTokens, Cols::kOwn, check_rope_table},
    {Op::kRope, Attributes::kRope, {kValue, kValue, kNone}, 2, 1,
     In::kF32, Out::kF32, RowKind::kTokens, Cols::kLikeFirst, check_rope},
    {Op::kAttention, Attributes::kAttention, {kValue, kValue, kValue}, 3, 1,
     In::kF32, Out::kF32, RowKind::kTokens, Cols::kOwn, check_attention},
    {Op::kSilu, kNoAttributes, {kValue, kNone, kNone}, 1, 1,
     In::kF32, Out::kF32, RowKind::kSame, Cols::kLikeFirst, no_more},
    {Op::kMul, kNoAttributes, {kValue, kValue, kNone}, 2, 1,
     In::kF32, Out::kF32, RowKind::kSame, Cols::kLikeFirst, no_more},
    {Op::kAdd, kNoAttributes, {kValue, kValue, kNone}, 2, 1,
     In::kF32, Out::kF32, RowKind::kSame, Cols::kLikeFirst, no_more},
    {Op::kGated, kNoAttributes, {kValue, kValue, kNone}, 2, 1,
     In::kF32, Out::kF32, RowKind::kSame, Cols::kLikeFirst, no_more},
    {Op::kAddNorm, Attributes::kNorm, {kValue, kValue, Slot::kNorm}, 3, 2,
     In::kF32, Out::kF32, RowKind::kSame, Cols::kLikeFirst, check_norm},
    {Op::kCast, kNoAttributes, {kValue, kNone, kNone}, 1, 1,
     In::kF32, Out::kBF16, RowKind::kSame, Cols::kLikeFirst, no_more},
    {Op::kSelectRows, kNoAttributes, {kValue, kNone, kNone}, 1, 1,
     In::kAny, Out::kSame, RowKind::kSelect, Cols::kLikeFirst, no_more},
    {Op::kTopCandidates, Attributes::kTopCandidates, {kValue, kNone, kNone}, 1, 0,
     In::kF32, Out::kF32, RowKind::kOutputs, Cols::kOwn, check_top_candidates},
    {Op::kAllReduce, kNoAttributes, {kValue, kNone, kNone}, 1, 1,
     In::kF32, Out::kF32, RowKind::kSame, Cols::kLikeFirst, no_more},
    {Op::kAllGather, Attributes::kGather, {kValue, kNone, kNone}, 1, 1,
     In::kAny, Out::kSame, RowKind::kSame, Cols::kOwn, check_all_gather},
    {Op::kColumns, Attributes::kColumns, {kValue, kNone, kNone}, 1, 1,
     In::kAny, Out::kSame, RowKind::kSame, Cols::kOwn, check_columns},
};
// clang-format on

const Signature* find_signature(program::Op op) {
  for (const Signature& signature : kSignatures) {
    if (static_cast<int>(signature.op) == static_cast<int>(op)) return &signature;
  }
  return nullptr;
}

bool role_fits(Slot slot, program::Role role) {
  switch (slot) {
    case Slot::kEmbedding:
      return role == program::EMBEDDING;
    case Slot::kMatrix:
      return role == program::LINEAR_WEIGHT || role == program::HEAD_WEIGHT;
    case Slot::kNorm:
      return role == program::NORM;
    case Slot::kBias:
      return role == program::BIAS;
    case Slot::kNothing:
    case Slot::kValue:
      return false;
  }
  return false;
}

absl::Status take_input(Call& call, int i, Slot slot, const std::vector<bool>& written) {
  const program::Operand& operand = call.instruction.inputs(i);
  const auto wrong = [&](const char* found) {
    return call.fail(
        fmt::format("input {} must be {}, found {}", i, kSlotNames[static_cast<int>(slot)], found));
  };
  if (operand.kind_case() == program::Operand::kValue) {
    if (slot != Slot::kValue) return wrong("a value");
    RETURN_IF_ERROR(
        call.expect_within("input value", operand.value(), 0, call.program.values_size() - 1));
    if (!written[operand.value()]) {
      return call.fail(
          fmt::format("input {}: value {} is read before it is written", i, operand.value()));
    }
    call.in.push_back(&call.program.values(operand.value()));
    return absl::OkStatus();
  }
  if (operand.kind_case() != program::Operand::kWeight) return wrong("nothing");
  if (slot == Slot::kValue) return wrong("a weight");
  RETURN_IF_ERROR(
      call.expect_within("input weight", operand.weight(), 0, call.program.weights_size() - 1));
  const program::Weight& weight = call.program.weights(operand.weight());
  if (!role_fits(slot, weight.role())) return wrong(program::Role_Name(weight.role()).c_str());
  call.weights.push_back(&weight);
  return absl::OkStatus();
}

absl::Status take_operands(const Signature& signature, Call& call, std::vector<bool>& written) {
  const Instruction& instruction = call.instruction;
  int most = 0;
  while (most < 3 && signature.inputs[most] != Slot::kNothing) ++most;
  RETURN_IF_ERROR(
      call.expect_within("inputs count", instruction.inputs_size(), signature.required, most));
  for (int i = 0; i < instruction.inputs_size(); ++i) {
    RETURN_IF_ERROR(take_input(call, i, signature.inputs[i], written));
  }
  RETURN_IF_ERROR(call.expect("outputs count", instruction.outputs_size(), signature.outputs));
  for (const int32_t output : instruction.outputs()) {
    RETURN_IF_ERROR(call.expect_within("output value", output, 0, call.program.values_size() - 1));
    if (written[output]) {
      return call.fail(fmt::format("value {} is written a second time", output));
    }
    written[output] = true;
    call.out.push_back(&call.program.values(output));
  }
  if (instruction.attributes().kind_case() != signature.attributes) {
    return call.fail("attributes must be those of the operator, found others or none");
  }
  return absl::OkStatus();
}

absl::Status check_dtypes(const Signature& signature, const Call& call) {
  const auto check = [&](const char* what, program::DType found, program::DType wanted) {
    if (found == wanted) return absl::OkStatus();
    return call.fail(fmt::format("dtype of {} must be {}, found {}", what,
                                 program::DType_Name(wanted), program::DType_Name(found)));
  };
  const bool free = signature.in == In::kAny && !call.in.empty();
  const program::DType in = free ? call.in[0]->dtype() : program::F32;
  for (const program::Value* value : call.in)
    RETURN_IF_ERROR(check("an input", value->dtype(), in));
  const program::DType out = signature.out == Out::kBF16   ? program::BF16
                             : signature.out == Out::kSame ? in
                                                           : program::F32;
  for (const program::Value* value : call.out) {
    RETURN_IF_ERROR(check("an output", value->dtype(), out));
  }
  return absl::OkStatus();
}

absl::Status check_shapes(const Signature& signature, const Call& call) {
  const auto check = [&](const char* what, program::Rows found, program::Rows wanted) {
    if (found == wanted) return absl::OkStatus();
    return call.fail(fmt::format("rows of {} must be {}, found {}", what,
                                 program::Rows_Name(wanted), program::Rows_Name(found)));
  };
  const bool outputs = signature.rows == RowKind::kOutputs ||
                       (signature.rows == RowKind::kSame && call.in[0]->rows() == program::OUTPUTS);
  const program::Rows in = outputs ? program::OUTPUTS : program::TOKENS;
  const program::Rows out = signature.rows == RowKind::kSelect ? program::OUTPUTS : in;
  for (const program::Value* value : call.in) RETURN_IF_ERROR(check("an input", value->rows(), in));
  for (const program::Value* value : call.out) {
    RETURN_IF_ERROR(check("an output", value->rows(), out));
  }
  if (signature.cols == Cols::kOwn) return absl::OkStatus();
  // All values have the first one's columns, but for rope's table.
  const size_t alike = signature.op == Op::kRope ? 1 : call.in.size();
  for (size_t i = 1; i < alike; ++i) {
    RETURN_IF_ERROR(call.expect("columns of an input", call.in[i]->cols(), call.in[0]->cols()));
  }
  for (const program::Value* value : call.out) {
    RETURN_IF_ERROR(call.expect("columns of an output", value->cols(), call.in[0]->cols()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status check_instructions(const Program& program) {
  std::vector<bool> written(program.values_size(), false);
  std::vector<bool> used(program.states_size(), false);
  int heads_found = 0;
  for (int i = 0; i < program.instructions_size(); ++i) {
    Call call{program, program.instructions(i), i, {}, {}, {}};
    const Signature* signature = find_signature(call.instruction.op());
    if (signature == nullptr) {
      return invalid_argument("program instruction {}: op must be a known operator, found {}", i,
                              static_cast<int>(call.instruction.op()));
    }
    RETURN_IF_ERROR(take_operands(*signature, call, written));
    RETURN_IF_ERROR(check_dtypes(*signature, call));
    RETURN_IF_ERROR(check_shapes(*signature, call));
    RETURN_IF_ERROR(signature->check(call));
    if (signature->op == Op::kTopCandidates) ++heads_found;
    if (signature->op != Op::kAttention) continue;
    const int state = call.attributes().attention().state();
    if (used[state]) return call.fail(fmt::format("state {} is written a second time", state));
    used[state] = true;
  }
  if (heads_found == 1) return absl::OkStatus();
  return invalid_argument("program: must have one top_candidates instruction, found {}",
                          heads_found);
}

}  // namespace lockstep

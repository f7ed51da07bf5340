// SPDX-License-Identifier: Apache-2.0
// The rows. A new operator is one more, and what does not compile or fails a test after that names
// the rest of what it needs.
#include "operators/schema.h"

#include <cmath>

#include "operators/checks.h"

namespace lockstep {
namespace {

constexpr OperandSchema value(const char* name) { return {name, OperandKind::kValue}; }
constexpr OperandSchema ids(const char* name) { return {name, OperandKind::kIds}; }
constexpr OperandSchema embedding(const char* name) { return {name, OperandKind::kEmbedding}; }
constexpr OperandSchema matrix(const char* name) { return {name, OperandKind::kMatrix}; }
constexpr OperandSchema norm(const char* name) { return {name, OperandKind::kNorm}; }
constexpr OperandSchema optional_bias(const char* name) { return {name, OperandKind::kBias, true}; }

constexpr std::array<OperatorSchema, kOpCount> kSchemas = table_by_op<OperatorSchema>({
    {.op = Op::kEmbed,
     .formula = "out[row] = weight[token of row]; rows of the vocabulary held elsewhere: -0.0",
     .attrs = AttrsKind::kEmbed,
     .inputs = {embedding("weight")},
     .outputs = {"out"},
     .rows = RowRule::kTokens,
     .check = check_embed,
     .flops_per_element = -1},
    {.op = Op::kLinear,
     .formula = "out = x * weight^T (+ bias)",
     .inputs = {value("x"), matrix("weight"), optional_bias("bias")},
     .outputs = {"out"},
     .input_types = InputTypes::kAlike,
     .check = check_linear,
     .flops_per_element = -1},
    {.op = Op::kRmsNorm,
     .formula = "out = x / sqrt(mean(x^2) + eps) * weight",
     .attrs = AttrsKind::kNorm,
     .inputs = {value("x"), norm("weight")},
     .outputs = {"out"},
     .columns = ColumnRule::kAlike,
     .in_place = true,
     .check = check_norm,
     .flops_per_element = 4},
    {.op = Op::kLayerNorm,
     .formula = "out = (x - mean(x)) / sqrt(variance(x) + eps) * weight (+ bias)",
     .attrs = AttrsKind::kNorm,
     .inputs = {value("x"), norm("weight"), optional_bias("bias")},
     .outputs = {"out"},
     .columns = ColumnRule::kAlike,
     .in_place = true,
     .check = check_norm,
     .flops_per_element = 7},
    {.op = Op::kHeadNorm,
     .formula = "rms_norm within each head, one weight of head_dim for all heads",
     .attrs = AttrsKind::kNorm,
     .inputs = {value("x"), norm("weight")},
     .outputs = {"out"},
     .columns = ColumnRule::kAlike,
     .in_place = true,
     .check = check_head_norm,
     .flops_per_element = 4},
    {.op = Op::kRopeTable,
     .formula = "cos and sin of position * inv_freq, times factor: [cos | sin], once per step",
     .attrs = AttrsKind::kRopeTable,
     .outputs = {"out"},
     .rows = RowRule::kTokens,
     .check = check_rope_table},
    {.op = Op::kRope,
     .formula = "every head's first rotary_dim columns rotated by the table, in pairs",
     .attrs = AttrsKind::kRope,
     .inputs = {value("x"), value("table")},
     .outputs = {"out"},
     .rows = RowRule::kTokens,
     .columns = ColumnRule::kOutputsAlike,
     .in_place = true,
     .check = check_rope,
     .flops_per_element = 3},
    {.op = Op::kAttention,
     .formula = "appends k and v to the layer's pages; out = softmax(scale * q * keys^T, capped) * "
                "values, causal, within window",
     .attrs = AttrsKind::kAttention,
     .inputs = {value("q"), value("k"), value("v")},
     .outputs = {"out"},
     .rows = RowRule::kTokens,
     .state = StateKind::kKvPages,
     .effect = true,
     .check = check_attention,
     .flops_per_element = -1},
    {.op = Op::kMap,
     .formula = "out = f(x), by element; f is silu, gelu, gelu_tanh, relu, relu_squared, sigmoid, "
                "tanh, scale (x * factor) or cap (factor * tanh(x / factor))",
     .attrs = AttrsKind::kMap,
     .inputs = {value("x")},
     .outputs = {"out"},
     .columns = ColumnRule::kAlike,
     .in_place = true,
     .check = check_map,
     .flops_per_element = 16},
    {.op = Op::kMul,
     .formula = "out = x * y, by element",
     .inputs = {value("x"), value("y")},
     .outputs = {"out"},
     .columns = ColumnRule::kAlike,
     .in_place = true,
     .flops_per_element = 1},
    {.op = Op::kAdd,
     .formula = "out = x + y",
     .inputs = {value("x"), value("y")},
     .outputs = {"out"},
     .columns = ColumnRule::kAlike,
     .in_place = true,
     .flops_per_element = 1},
    {.op = Op::kGated,
     .formula = "out = f(gate) * up; f is a function of map",
     .attrs = AttrsKind::kMap,
     .inputs = {value("gate"), value("up")},
     .outputs = {"out"},
     .columns = ColumnRule::kAlike,
     .in_place = true,
     .check = check_map,
     .flops_per_element = 16},
    {.op = Op::kAddNorm,
     .formula = "sum = x + y; out = rms_norm(sum)",
     .attrs = AttrsKind::kNorm,
     .inputs = {value("x"), value("y"), norm("weight")},
     .outputs = {"sum", "out"},
     .columns = ColumnRule::kAlike,
     .in_place = true,
     .check = check_norm,
     .flops_per_element = 5},
    {.op = Op::kCast,
     .formula = "out = x rounded to bfloat16, nearest even",
     .inputs = {value("x")},
     .outputs = {"out"},
     .output_types = OutputTypes::kBF16,
     .columns = ColumnRule::kAlike},
    {.op = Op::kSelectRows,
     .formula = "the rows whose logits are wanted",
     .inputs = {value("x")},
     .outputs = {"out"},
     .rows = RowRule::kTokensToOutputs,
     .input_types = InputTypes::kAlike,
     .output_types = OutputTypes::kSame,
     .columns = ColumnRule::kAlike,
     .flops_per_element = -1},
    {.op = Op::kTopCandidates,
     .formula = "candidates of this rank's slice of the logits, for the sampler",
     .attrs = AttrsKind::kTopCandidates,
     .inputs = {value("logits")},
     .rows = RowRule::kOutputs,
     .effect = true,
     .check = check_top_candidates,
     .flops_per_element = 1},
    {.op = Op::kAllReduce,
     .formula = "out = the sum of x over ranks",
     .inputs = {value("x")},
     .outputs = {"out"},
     .columns = ColumnRule::kAlike,
     .run_by = RunBy::kCollective,
     .effect = true,
     .in_place = true},
    {.op = Op::kAllGather,
     .formula = "out = the columns of all ranks side by side",
     .attrs = AttrsKind::kGather,
     .inputs = {value("x")},
     .outputs = {"out"},
     .input_types = InputTypes::kAlike,
     .output_types = OutputTypes::kSame,
     .run_by = RunBy::kCollective,
     .effect = true,
     .check = check_all_gather},
    {.op = Op::kRoute,
     .formula = "for each row the best experts by score (+ bias), ties to the lower id, ascending, "
                "and their weights: softmax or sigmoid of the scores",
     .attrs = AttrsKind::kRoute,
     .inputs = {value("scores"), optional_bias("bias")},
     .outputs = {"ids", "weights"},
     .rows = RowRule::kOwn,
     .output_types = OutputTypes::kIdsFirst,
     .check = check_route,
     .flops_per_element = 16},
    {.op = Op::kExpertLinear,
     .formula = "out[route] = x[route, or its token] * weight[id of route]^T (+ bias[id of route])",
     .attrs = AttrsKind::kExpert,
     .inputs = {value("x"), ids("ids"), matrix("weight"), optional_bias("bias")},
     .outputs = {"out"},
     .rows = RowRule::kOwn,
     .input_types = InputTypes::kAlike,
     .check = check_expert_linear,
     .flops_per_element = -1},
    {.op = Op::kCombine,
     .formula = "out[token] = sum over its routes, in order, of weights[route] * x[route]",
     .inputs = {value("x"), value("weights")},
     .outputs = {"out"},
     .rows = RowRule::kOwn,
     .check = check_combine,
     .flops_per_element = 2},
    {.op = Op::kColumns,
     .formula = "out = columns begin to end of x, where they lie",
     .attrs = AttrsKind::kColumns,
     .inputs = {value("x")},
     .outputs = {"out"},
     .input_types = InputTypes::kAlike,
     .output_types = OutputTypes::kSame,
     .run_by = RunBy::kView,
     .check = check_columns},
});
#define LOCKSTEP_OP(number, constant, message, word) \
  static_assert(kSchemas[number].op == Op::constant, #word " has no row in operators/schema.cc");
#include "operators/ops.inc"

// Rows that contradict themselves: operands with gaps, optional ones in front of required ones,
// weights in front of values.
constexpr bool rows_are_sound() {
  for (const OperatorSchema& schema : kSchemas) {
    bool ended = false, optional = false, weights = false;
    for (const OperandSchema& operand : schema.inputs) {
      const bool none = operand.kind == OperandKind::kNone;
      const bool values = is_value(operand.kind);
      if (!none && (ended || (optional && !operand.optional) || (weights && values))) return false;
      ended = ended || none;
      optional = optional || operand.optional;
      weights = weights || (!none && !values);
    }
    if (schema.columns != ColumnRule::kOwn && schema.inputs[0].kind != OperandKind::kValue) {
      return false;
    }
  }
  return true;
}
static_assert(rows_are_sound(), "required operands come first, and values before weights");

template <typename Counts>
int count_inputs(const OperatorSchema& schema, const Counts& counts) {
  int count = 0;
  for (const OperandSchema& operand : schema.inputs) {
    count += operand.kind != OperandKind::kNone && counts(operand) ? 1 : 0;
  }
  return count;
}

bool check_type(const char* what, DType found, DType wanted, Finding& finding) {
  if (found == wanted) return true;
  finding.text = std::string("dtype of ") + what + " must be " + dtype_name(wanted) + ", found " +
                 dtype_name(found);
  return false;
}

bool check_types(const OperatorSchema& schema, const OperatorCall& call, Finding& finding) {
  const int values = schema.value_count();
  const DType in =
      schema.input_types == InputTypes::kAlike && values > 0 ? call.in[0].dtype : DType::kF32;
  if (!finding.holds(in == DType::kF32 || in == DType::kBF16,
                     "dtype of an input must be float32 or bfloat16")) {
    return false;
  }
  for (int i = 0; i < values; ++i) {
    const DType wanted = schema.inputs[i].kind == OperandKind::kIds ? DType::kI32 : in;
    if (!check_type("an input", call.in[i].dtype, wanted, finding)) return false;
  }
  const DType out = schema.output_types == OutputTypes::kBF16   ? DType::kBF16
                    : schema.output_types == OutputTypes::kSame ? in
                                                                : DType::kF32;
  for (int i = 0; i < schema.output_count(); ++i) {
    const bool ids = i == 0 && schema.output_types == OutputTypes::kIdsFirst;
    if (!check_type("an output", call.out[i].dtype, ids ? DType::kI32 : out, finding)) return false;
  }
  return true;
}

bool check_column_rule(const OperatorSchema& schema, const OperatorCall& call, Finding& finding) {
  if (schema.columns == ColumnRule::kOwn) return true;
  const int64_t cols = call.in[0].cols;
  const int alike = schema.columns == ColumnRule::kAlike ? schema.value_count() : 1;
  for (int i = 1; i < alike; ++i) {
    if (!finding.equal("columns of an input", call.in[i].cols, cols)) return false;
  }
  for (int i = 0; i < schema.output_count(); ++i) {
    if (!finding.equal("columns of an output", call.out[i].cols, cols)) return false;
  }
  return true;
}

}  // namespace

int OperatorSchema::input_count() const {
  return count_inputs(*this, [](const OperandSchema&) { return true; });
}

int OperatorSchema::required_count() const {
  return count_inputs(*this, [](const OperandSchema& operand) { return !operand.optional; });
}

int OperatorSchema::value_count() const {
  return count_inputs(*this, [](const OperandSchema& operand) { return is_value(operand.kind); });
}

bool OperatorSchema::multiplies() const {
  return count_inputs(*this, [](const OperandSchema& operand) {
           return operand.kind == OperandKind::kMatrix;
         }) > 0;
}

int OperatorSchema::output_count() const {
  int count = 0;
  while (count < kMaxOutputs && outputs[count] != nullptr) ++count;
  return count;
}

bool Finding::equal(const char* what, int64_t found, int64_t wanted) {
  if (found == wanted) return true;
  text =
      std::string(what) + " must be " + std::to_string(wanted) + ", found " + std::to_string(found);
  return false;
}

bool Finding::within(const char* what, int64_t found, int64_t min, int64_t max) {
  if (min <= found && found <= max) return true;
  text = std::string(what) + " must be " + std::to_string(min) + " to " + std::to_string(max) +
         ", found " + std::to_string(found);
  return false;
}

bool Finding::finite(const char* what, float found) {
  if (std::isfinite(found)) return true;
  text = std::string(what) + " must be a finite number, found " + std::to_string(found);
  return false;
}

bool Finding::holds(bool condition, const char* otherwise) {
  if (!condition) text = otherwise;
  return condition;
}

const OperatorSchema& schema_of(Op op) {
  const auto index = static_cast<size_t>(op);
  return kSchemas[index < kSchemas.size() ? index : 0];
}

std::string check_row_rule(const OperatorSchema& schema, std::span<const int> in,
                           std::span<const int> out) {
  const RowRule rule = schema.rows;
  if (rule == RowRule::kOwn) return "";
  const bool any = rule == RowRule::kSame;
  const int first = !in.empty() ? in[0] : !out.empty() ? out[0] : kTokenRows;
  const int wanted_in = any ? first : rule == RowRule::kOutputs ? kOutputRows : kTokenRows;
  const int wanted_out = rule == RowRule::kTokensToOutputs ? kOutputRows : wanted_in;
  Finding finding;
  for (const int domain : in) {
    if (!finding.equal("rows of an input, a row domain,", domain, wanted_in)) return finding.text;
  }
  for (const int domain : out) {
    if (!finding.equal("rows of an output, a row domain,", domain, wanted_out)) return finding.text;
  }
  return "";
}

std::string check_call(const OperatorSchema& schema, const OperatorCall& call) {
  Finding finding;
  const bool good = check_types(schema, call, finding) &&
                    check_column_rule(schema, call, finding) &&
                    (schema.check == nullptr || schema.check(call, finding));
  return good ? "" : finding.text;
}

std::string operators_page() {
  std::string page =
      "# Operators\n\nWritten from operators/schema.cc; `LOCKSTEP_REWRITE=1 "
      "build/cpu/tests/operators_test` rewrites it.\nOptional operands are in parentheses. "
      "\"in place\": the first output may lie where an input lies.\n\n"
      "| operator | in | out | computes | |\n| --- | --- | --- | --- | --- |\n";
  for (int i = 1; i < kOpCount; ++i) {
    const OperatorSchema& schema = kSchemas[static_cast<size_t>(i)];
    std::string in, out;
    for (const OperandSchema& operand : schema.inputs) {
      if (operand.kind == OperandKind::kNone) break;
      const std::string name = operand.name;
      in += (in.empty() ? "" : ", ") + (operand.optional ? "(" + name + ")" : name);
    }
    for (int k = 0; k < schema.output_count(); ++k) {
      out += (out.empty() ? "" : ", ") + std::string(schema.outputs[static_cast<size_t>(k)]);
    }
    page += "| `" + std::string(op_name(schema.op)) + "` | " + in + " | " + out + " | " +
            schema.formula + " | " + (schema.in_place ? "in place" : "") + " |\n";
  }
  return page;
}

}  // namespace lockstep

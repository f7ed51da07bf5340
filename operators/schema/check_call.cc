// SPDX-License-Identifier: Apache-2.0
// Checks that every operator shares: operands, types, columns, rows.
#include <cmath>
#include <span>
#include <string>
#include <type_traits>

#include "base/numbers/quantization.h"
#include "operators/attribute_fields.h"
#include "operators/schema/schema.h"

namespace lockstep {
namespace {

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

// The required type of output i.
DType wanted_output(const OperatorSchema& schema, const OperatorCall& call, DType in, int i) {
  switch (schema.output_types) {
    case OutputTypes::kMayRound: {
      const bool rounded = i + 1 == schema.output_count() && call.out[i].dtype == DType::kBF16;
      return rounded ? DType::kBF16 : DType::kF32;
    }
    case OutputTypes::kBF16:
      return DType::kBF16;
    case OutputTypes::kRounded:
      return is_rounded(call.out[0].dtype) ? call.out[0].dtype : DType::kA8;
    case OutputTypes::kSame:
      return in;
    case OutputTypes::kIdsFirst:
      return i == 0 ? DType::kI32 : DType::kF32;
    case OutputTypes::kF32:
      break;
  }
  return DType::kF32;
}

bool check_types(const OperatorSchema& schema, const OperatorCall& call, Finding& finding) {
  const int values = schema.value_count();
  const bool alike = schema.input_types != InputTypes::kF32;
  const DType in = alike && values > 0 ? call.in[0].dtype : DType::kF32;
  const bool rounded = is_rounded(in) && schema.input_types == InputTypes::kAlikeOrRounded;
  if (!finding.holds(in == DType::kF32 || in == DType::kBF16 || rounded,
                     "dtype of an input must be float32 or bfloat16")) {
    return false;
  }
  for (int i = 0; i < values; ++i) {
    if (!call.in[i].present) continue;
    const DType wanted = schema.inputs[i].kind == OperandKind::kIds ? DType::kI32 : in;
    if (!check_type("an input", call.in[i].dtype, wanted, finding)) return false;
  }
  for (int i = 0; i < schema.output_count(); ++i) {
    const DType wanted = wanted_output(schema, call, in, i);
    if (!check_type("an output", call.out[i].dtype, wanted, finding)) return false;
  }
  return true;
}

bool check_column_rule(const OperatorSchema& schema, const OperatorCall& call, Finding& finding) {
  if (schema.columns == ColumnRule::kOwn) return true;
  const int64_t cols = call.in[0].cols;
  const int alike = schema.columns == ColumnRule::kOutputsAlike ? 1 : schema.value_count();
  for (int i = 1; i < alike; ++i) {
    if (!finding.equal("columns of an input", call.in[i].cols, cols)) return false;
  }
  for (int i = 0; i < schema.output_count(); ++i) {
    if (!finding.equal("columns of an output", call.out[i].cols, cols)) return false;
  }
  return true;
}

template <typename T>
bool in_range(const AttrsField& field, T value, Finding& finding) {
  if constexpr (std::is_same_v<T, float>) {
    return finding.finite(field.name, value, static_cast<float>(field.min),
                          static_cast<float>(field.max));
  } else {
    return finding.within(field.name, static_cast<int64_t>(value), static_cast<int64_t>(field.min),
                          static_cast<int64_t>(field.max));
  }
}

// Checks the ranges of operators/attributes.inc.
bool check_ranges(OperatorAttrs attrs, Finding& finding) {
  bool good = true;
  attrs.apply([&](auto& fields) {
    visit_fields(fields, [&](const AttrsField& field, const auto& value) {
      if constexpr (requires { value.data; }) {
        for (const auto element : value) good = good && in_range(field, element, finding);
      } else {
        good = good && in_range(field, value, finding);
      }
    });
  });
  return good;
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

int OperatorSchema::required_values() const {
  return count_inputs(*this, [](const OperandSchema& operand) {
    return is_value(operand.kind) && !operand.optional;
  });
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

bool Finding::finite(const char* what, float found, float min, float max) {
  if (std::isfinite(found) && min <= found && found <= max) return true;
  text = std::string(what) + " must be a finite number";
  if (min > -kMaxFloat) text += " of " + std::to_string(std::lround(min)) + " or more";
  if (max < kMaxFloat) text += " and " + std::to_string(std::lround(max)) + " or less";
  text += ", found " + std::to_string(found);
  return false;
}

bool Finding::holds(bool condition, const char* otherwise) {
  if (!condition) text = otherwise;
  return condition;
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
                    check_column_rule(schema, call, finding) && check_ranges(call.attrs, finding) &&
                    (schema.check == nullptr || schema.check(call, finding));
  return good ? "" : finding.text;
}

}  // namespace lockstep

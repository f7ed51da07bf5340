// SPDX-License-Identifier: Apache-2.0
#include "coordinator/text/jinja/access.h"
#include "coordinator/text/jinja/interpreter.h"
#include "coordinator/text/jinja/operators.h"
#include "coordinator/text/jinja/show.h"

namespace lockstep::jinja {

using Kind = Expression::Kind;

Result Interpreter::evaluate(const Expression& expression, Scope* scope) {
  if (expression.kind == Kind::kConstant) return expression.constant;
  const Level level(&frames_);
  runtime_.budget.spend(expression.kind == Kind::kName ? 0 : 1);
  // A macro may be in an expression that is in a macro: a tree's own depth does not bound this.
  const int most = 20 * runtime_.budget.limits().depth;
  Result result = frames_ > most ? Result(resource_exhausted("the template is too deep in itself"))
                                 : dispatch(expression, scope);
  if (result.ok() && !runtime_.budget.ok()) result = runtime_.budget.status();
  if (!result.ok() && error_line_ == 0) error_line_ = expression.line;
  return result;
}

Result Interpreter::dispatch(const Expression& expression, Scope* scope) {
  switch (expression.kind) {
    case Kind::kConstant:
      return expression.constant;
    case Kind::kName:
      return evaluate_name(expression, scope);
    case Kind::kList:
    case Kind::kTuple:
      return evaluate_items(expression, scope);
    case Kind::kDict:
      return evaluate_dict(expression, scope);
    case Kind::kAttribute:
    case Kind::kItem:
    case Kind::kSlice:
      return evaluate_access(expression, scope);
    case Kind::kFilter:
    case Kind::kTest:
      return evaluate_builtin(expression, scope);
    case Kind::kAnd:
    case Kind::kOr:
      return evaluate_logic(expression, scope);
    case Kind::kConcat:
      return evaluate_concat(expression, scope);
    case Kind::kArithmetic:
      return evaluate_arithmetic(expression, scope);
    case Kind::kCompare:
      return evaluate_compare(expression, scope);
    case Kind::kConditional:
      return evaluate_conditional(expression, scope);
    default:
      break;
  }
  ASSIGN_OR_RETURN(const Value value, evaluate(*expression.operands[0], scope));
  if (expression.kind == Kind::kNot) return !truth(value);
  if (expression.kind == Kind::kNegative) return negative(value);
  if (expression.kind == Kind::kPositive) return positive(value);
  ASSIGN_OR_RETURN(const Arguments arguments, evaluate_arguments(expression, scope));
  return call(value, arguments);
}

Result Interpreter::evaluate_name(const Expression& expression, Scope* scope) {
  if (const Value* found = scope->find(expression.name)) return *found;
  if (const Builtin* function = find_function(expression.name)) {
    return FunctionRef(std::make_shared<Function>(Function{function, {}}));
  }
  return Value::undefined(fmt::format("'{}' is undefined", expression.name));
}

Result Interpreter::evaluate_items(const Expression& expression, Scope* scope) {
  std::vector<Value> items;
  runtime_.budget.spend(static_cast<int64_t>(expression.operands.size()));
  for (const ExpressionPtr& operand : expression.operands) {
    ASSIGN_OR_RETURN(Value item, evaluate(*operand, scope));
    items.push_back(std::move(item));
  }
  return expression.kind == Kind::kList ? runtime_.list(std::move(items))
                                        : runtime_.tuple(std::move(items));
}

Result Interpreter::evaluate_dict(const Expression& expression, Scope* scope) {
  Dict dict;
  runtime_.budget.spend(static_cast<int64_t>(expression.operands.size()));
  for (size_t i = 0; i < expression.operands.size(); i += 2) {
    ASSIGN_OR_RETURN(Value key, evaluate(*expression.operands[i], scope));
    ASSIGN_OR_RETURN(Value value, evaluate(*expression.operands[i + 1], scope));
    if (!is_hashable(&runtime_.budget, key))
      return invalid_argument("unhashable type: '{}'", type_name(key));
    dict.set(std::move(key), std::move(value));
  }
  return runtime_.dict(std::move(dict));
}

Result Interpreter::evaluate_access(const Expression& expression, Scope* scope) {
  ASSIGN_OR_RETURN(const Value value, evaluate(*expression.operands[0], scope));
  if (expression.kind == Kind::kAttribute) return attribute(runtime_, value, expression.name);
  Value keys[3];
  const Value* given[3] = {};
  for (size_t i = 1; i < expression.operands.size(); ++i) {
    if (expression.operands[i] == nullptr) continue;
    ASSIGN_OR_RETURN(keys[i - 1], evaluate(*expression.operands[i], scope));
    given[i - 1] = &keys[i - 1];
  }
  if (expression.kind == Kind::kItem) return item(runtime_, value, keys[0]);
  return slice(runtime_, value, given[0], given[1], given[2]);
}

Result Interpreter::evaluate_builtin(const Expression& expression, Scope* scope) {
  Value value;
  if (expression.operands[0] == nullptr) {
    value = *piped_;
  } else {
    ASSIGN_OR_RETURN(value, evaluate(*expression.operands[0], scope));
  }
  ASSIGN_OR_RETURN(const Arguments arguments, evaluate_arguments(expression, scope));
  if (expression.builtin == nullptr) {
    return invalid_argument("No {} named '{}' found.",
                            expression.kind == Kind::kTest ? "test" : "filter", expression.name);
  }
  return run_builtin(runtime_, *expression.builtin, value, arguments);
}

// The operand that decides, as in Python, and not just true or false.
Result Interpreter::evaluate_logic(const Expression& expression, Scope* scope) {
  const bool decides = expression.kind == Kind::kOr;
  Value value;
  for (const ExpressionPtr& operand : expression.operands) {
    ASSIGN_OR_RETURN(value, evaluate(*operand, scope));
    if (truth(value) == decides) break;
  }
  return value;
}

Result Interpreter::evaluate_concat(const Expression& expression, Scope* scope) {
  MarkedText text;
  std::vector<Value> values;
  for (const ExpressionPtr& operand : expression.operands) {
    ASSIGN_OR_RETURN(Value value, evaluate(*operand, scope));
    values.push_back(std::move(value));
  }
  runtime_.budget.spend(static_cast<int64_t>(values.size()));
  for (const Value& value : values) RETURN_IF_ERROR(append_str(runtime_, value, &text));
  return runtime_.text(std::move(text));
}

Result Interpreter::evaluate_arithmetic(const Expression& expression, Scope* scope) {
  ASSIGN_OR_RETURN(Value left, evaluate(*expression.operands[0], scope));
  for (size_t i = 0; i < expression.operators.size(); ++i) {
    runtime_.budget.spend(1);
    RETURN_IF_ERROR(runtime_.budget.status());
    ASSIGN_OR_RETURN(const Value right, evaluate(*expression.operands[i + 1], scope));
    ASSIGN_OR_RETURN(left, arithmetic(runtime_, expression.operators[i], left, right));
  }
  return left;
}

Result Interpreter::evaluate_compare(const Expression& expression, Scope* scope) {
  ASSIGN_OR_RETURN(Value left, evaluate(*expression.operands[0], scope));
  for (size_t i = 0; i < expression.operators.size(); ++i) {
    runtime_.budget.spend(1);
    RETURN_IF_ERROR(runtime_.budget.status());
    ASSIGN_OR_RETURN(Value right, evaluate(*expression.operands[i + 1], scope));
    ASSIGN_OR_RETURN(const bool holds,
                     compare(&runtime_.budget, expression.operators[i], left, right));
    if (!holds) return false;
    left = std::move(right);
  }
  return true;
}

Result Interpreter::evaluate_conditional(const Expression& expression, Scope* scope) {
  ASSIGN_OR_RETURN(const Value condition, evaluate(*expression.operands[1], scope));
  if (truth(condition)) return evaluate(*expression.operands[0], scope);
  if (expression.operands[2] != nullptr) return evaluate(*expression.operands[2], scope);
  return Value::undefined(
      fmt::format("the inline if-expression on line {} evaluated to false and no else section was "
                  "defined.",
                  expression.line));
}

absl::StatusOr<Arguments> Interpreter::evaluate_arguments(const Expression& expression,
                                                          Scope* scope) {
  Arguments all;
  runtime_.budget.spend(static_cast<int64_t>(expression.arguments.size()));
  for (const Argument& argument : expression.arguments) {
    ASSIGN_OR_RETURN(Value value, evaluate(*argument.value, scope));
    if (argument.kind == Argument::Kind::kPositional) {
      all.positional.push_back(std::move(value));
    } else if (argument.kind == Argument::Kind::kNamed) {
      all.named.emplace_back(argument.name, std::move(value));
    } else if (argument.kind == Argument::Kind::kStar) {
      ASSIGN_OR_RETURN(const std::vector<Value> items, items_of(runtime_, value));
      runtime_.budget.spend(static_cast<int64_t>(items.size()));
      all.positional.insert(all.positional.end(), items.begin(), items.end());
    } else {
      const Dict* dict = value.dict();
      if (dict == nullptr) {
        return invalid_argument("argument after ** must be a mapping, not {}", type_name(value));
      }
      runtime_.budget.spend(static_cast<int64_t>(dict->entries.size()));
      for (const auto& [key, entry] : dict->entries) {
        if (key.text() == nullptr) return invalid_argument("keywords must be strings");
        all.named.emplace_back(key.text()->bytes(), entry);
      }
    }
    RETURN_IF_ERROR(runtime_.budget.status());
  }
  return all;
}

}  // namespace lockstep::jinja

// SPDX-License-Identifier: Apache-2.0
#include "coordinator/text/jinja/interpreter.h"
#include "coordinator/text/jinja/values/format.h"
#include "coordinator/text/jinja/values/operators.h"

namespace lockstep::jinja {

using Kind = Expression::Kind;

Value Interpreter::evaluate(const Expression& expression, Scope* scope) {
  if (expression.kind == Kind::kConstant) return expression.constant;
  const Level level(&frames_);
  budget_.spend(expression.kind == Kind::kName ? 0 : 1);
  // An expression in a macro may call a macro, so the depth of one tree does not limit the nesting.
  if (frames_ > 20 * budget_.limits().depth) {
    budget_.exhausted("the template is nested too deeply");
  }
  Value value;
  if (budget_.ok()) value = dispatch(expression, scope);
  if (!budget_.ok() && error_line_ == 0) error_line_ = expression.line;
  return value;
}

Value Interpreter::dispatch(const Expression& expression, Scope* scope) {
  switch (expression.kind) {
    case Kind::kName:
      return evaluate_name(expression, scope);
    case Kind::kList:
      return runtime_.list(evaluate_all(expression, scope));
    case Kind::kTuple:
      return runtime_.tuple(evaluate_all(expression, scope));
    case Kind::kDict:
      return evaluate_dict(expression, scope);
    case Kind::kSlice:
      return evaluate_slice(expression, scope);
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
  const Value value = evaluate(*expression.operands[0], scope);
  if (!budget_.ok()) return {};
  switch (expression.kind) {
    case Kind::kAttribute:
      return attribute(runtime_, value, expression.name);
    case Kind::kItem: {
      const Value key = evaluate(*expression.operands[1], scope);
      return budget_.ok() ? item(runtime_, value, key) : Value();
    }
    case Kind::kNot:
      return !truth(value);
    case Kind::kNegative:
      return negative(budget_, value);
    case Kind::kPositive:
      return positive(budget_, value);
    default:
      return call(value, evaluate_arguments(expression, scope));
  }
}

Value Interpreter::evaluate_name(const Expression& expression, Scope* scope) {
  if (const Value* found = scope->find(expression.name)) return *found;
  if (const Builtin* function = find_function(expression.name)) {
    return runtime_.function(*function, {});
  }
  return Value::undefined(fmt::format("'{}' is undefined", expression.name));
}

// The values of all operands; charges one step per operand.
std::vector<Value> Interpreter::evaluate_all(const Expression& expression, Scope* scope) {
  std::vector<Value> values;
  budget_.spend(static_cast<int64_t>(expression.operands.size()));
  for (const ExpressionPtr& operand : expression.operands) {
    values.push_back(evaluate(*operand, scope));
    if (!budget_.ok()) return {};
  }
  return values;
}

Value Interpreter::evaluate_dict(const Expression& expression, Scope* scope) {
  Dict dict;
  std::vector<Value> all = evaluate_all(expression, scope);
  for (size_t i = 0; i < all.size() && check_hashable(budget_, all[i]); i += 2) {
    dict.set(std::move(all[i]), std::move(all[i + 1]));
  }
  return runtime_.dict(std::move(dict));
}

Value Interpreter::evaluate_slice(const Expression& expression, Scope* scope) {
  Value values[4];
  const Value* given[4] = {};
  for (size_t i = 0; i < expression.operands.size(); ++i) {
    if (expression.operands[i] == nullptr) continue;
    values[i] = evaluate(*expression.operands[i], scope);
    given[i] = &values[i];
  }
  return budget_.ok() ? slice(runtime_, values[0], given[1], given[2], given[3]) : Value();
}

Value Interpreter::evaluate_builtin(const Expression& expression, Scope* scope) {
  const ExpressionPtr& operand = expression.operands[0];
  const Value value = operand == nullptr ? *piped_ : evaluate(*operand, scope);
  const Arguments arguments = evaluate_arguments(expression, scope);
  if (expression.builtin == nullptr) {
    return budget_.refuse("No {} named '{}' found.",
                          expression.kind == Kind::kTest ? "test" : "filter", expression.name);
  }
  return run_builtin(runtime_, *expression.builtin, value, arguments);
}

// Returns the operand that decides, as in Python, not just true or false.
Value Interpreter::evaluate_logic(const Expression& expression, Scope* scope) {
  const bool decides = expression.kind == Kind::kOr;
  Value value;
  for (const ExpressionPtr& operand : expression.operands) {
    value = evaluate(*operand, scope);
    if (truth(value) == decides || !budget_.ok()) break;
  }
  return value;
}

Value Interpreter::evaluate_concat(const Expression& expression, Scope* scope) {
  MarkedText text;
  for (const Value& value : evaluate_all(expression, scope)) append_str(runtime_, value, &text);
  return runtime_.text(std::move(text));
}

Value Interpreter::evaluate_arithmetic(const Expression& expression, Scope* scope) {
  Value left = evaluate(*expression.operands[0], scope);
  for (size_t i = 0; i < expression.operators.size() && budget_.spend(1); ++i) {
    const Value right = evaluate(*expression.operands[i + 1], scope);
    if (budget_.ok()) left = arithmetic(runtime_, expression.operators[i], left, right);
  }
  return left;
}

Value Interpreter::evaluate_compare(const Expression& expression, Scope* scope) {
  Value left = evaluate(*expression.operands[0], scope);
  for (size_t i = 0; i < expression.operators.size() && budget_.spend(1); ++i) {
    Value right = evaluate(*expression.operands[i + 1], scope);
    if (!budget_.ok() || !compare(budget_, expression.operators[i], left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Interpreter::evaluate_conditional(const Expression& expression, Scope* scope) {
  const bool holds = truth(evaluate(*expression.operands[1], scope));
  if (!budget_.ok()) return {};
  const ExpressionPtr& chosen = expression.operands[holds ? 0 : 2];
  if (chosen != nullptr) return evaluate(*chosen, scope);
  return Value::undefined(
      fmt::format("the inline if-expression on line {} evaluated to false and no else section was "
                  "defined.",
                  expression.line));
}

Arguments Interpreter::evaluate_arguments(const Expression& expression, Scope* scope) {
  Arguments all;
  budget_.spend(static_cast<int64_t>(expression.arguments.size()));
  for (const Argument& argument : expression.arguments) {
    Value value = evaluate(*argument.value, scope);
    if (!budget_.ok()) return {};
    switch (argument.kind) {
      case Argument::Kind::kPositional:
        all.positional.push_back(std::move(value));
        break;
      case Argument::Kind::kNamed:
        all.named.emplace_back(argument.name, std::move(value));
        break;
      case Argument::Kind::kStar: {
        const std::vector<Value> items = items_of(runtime_, value);
        budget_.spend(static_cast<int64_t>(items.size()));
        all.positional.insert(all.positional.end(), items.begin(), items.end());
        break;
      }
      case Argument::Kind::kDoubleStar: {
        const Dict* dict = value.dict();
        if (dict == nullptr) {
          return budget_.refuse("argument after ** must be a mapping, not {}", value.type_name());
        }
        budget_.spend(static_cast<int64_t>(dict->entries.size()));
        for (const auto& [key, entry] : dict->entries) {
          if (key.text() == nullptr) return budget_.refuse("keywords must be strings");
          all.named.emplace_back(key.text()->bytes(), entry);
        }
      }
    }
  }
  return all;
}

}  // namespace lockstep::jinja

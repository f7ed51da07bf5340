// SPDX-License-Identifier: Apache-2.0
#include "coordinator/text/jinja/access.h"
#include "coordinator/text/jinja/interpreter.h"
#include "coordinator/text/jinja/operators.h"
#include "coordinator/text/jinja/show.h"

namespace lockstep::jinja {
namespace {

using Kind = Statement::Kind;

int64_t memory_of(const MarkedText& text) {
  return static_cast<int64_t>(text.bytes.size() + text.from_request.size() * sizeof(ByteRange));
}

}  // namespace

absl::StatusOr<MarkedText> Interpreter::run(const Body& body, Scope* variables) {
  return capture([&] { return execute(body, variables); });
}

absl::StatusOr<MarkedText> Interpreter::capture(const std::function<FlowResult()>& run,
                                                Flow* flow) {
  MarkedText text;
  MarkedText* outer = std::exchange(output_, &text);
  const FlowResult result = run();
  output_ = outer;
  runtime_.budget.give_back(memory_of(text));
  RETURN_IF_ERROR(result.status());
  if (flow != nullptr) *flow = *result;
  return text;
}

absl::Status Interpreter::print(const Value& value) {
  const int64_t before = memory_of(*output_);
  RETURN_IF_ERROR(append_str(runtime_, value, output_));
  runtime_.budget.take(memory_of(*output_) - before);
  return absl::OkStatus();
}

Interpreter::FlowResult Interpreter::execute(const Body& body, Scope* scope) {
  for (const Statement& statement : body) {
    ASSIGN_OR_RETURN(const Flow flow, execute(statement, scope));
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::FlowResult Interpreter::execute(const Statement& statement, Scope* scope) {
  const Level level(&frames_);
  runtime_.budget.spend(1);
  FlowResult result = dispatch(statement, scope);
  if (result.ok() && !runtime_.budget.ok()) result = runtime_.budget.status();
  if (!result.ok() && error_line_ == 0) error_line_ = statement.line;
  return result;
}

Interpreter::FlowResult Interpreter::dispatch(const Statement& statement, Scope* scope) {
  switch (statement.kind) {
    case Kind::kData:
      RETURN_IF_ERROR(
          runtime_.budget.check_text(output_->bytes.size() + statement.text.bytes.size()));
      runtime_.budget.copy(statement.text.bytes.size());
      runtime_.budget.take(static_cast<int64_t>(statement.text.bytes.size()));
      output_->append(statement.text);
      return Flow::kNext;
    case Kind::kOutput:
      for (const ExpressionPtr& expression : statement.expressions) {
        ASSIGN_OR_RETURN(const Value value, evaluate(*expression, scope));
        RETURN_IF_ERROR(print(value));
      }
      return Flow::kNext;
    case Kind::kSet: {
      ASSIGN_OR_RETURN(const Value value, evaluate(*statement.expressions[1], scope));
      RETURN_IF_ERROR(assign(*statement.expressions[0], value, scope));
      return Flow::kNext;
    }
    case Kind::kSetBlock:
      return execute_set_block(statement, scope);
    case Kind::kIf:
      return execute_if(statement, scope);
    case Kind::kFor: {
      ASSIGN_OR_RETURN(const Value items, evaluate(*statement.expressions[1], scope));
      return execute_for(statement, items, scope, 0);
    }
    case Kind::kBreak:
      return Flow::kBreak;
    case Kind::kContinue:
      return Flow::kContinue;
    case Kind::kMacro: {
      Macro* macro = runtime_.macro();
      *macro = {statement.macro.get(), scope};
      scope->capture();
      scope->variables[statement.macro->name] = static_cast<const Macro*>(macro);
      return Flow::kNext;
    }
    case Kind::kCallBlock:
      RETURN_IF_ERROR(execute_call(statement, scope));
      return Flow::kNext;
    case Kind::kFilter:
      return execute_filter(statement, scope);
    case Kind::kWith: {
      Scope* inner = runtime_.scope(scope);
      for (size_t i = 0; i < statement.expressions.size(); i += 2) {
        ASSIGN_OR_RETURN(const Value value, evaluate(*statement.expressions[i + 1], scope));
        RETURN_IF_ERROR(assign(*statement.expressions[i], value, inner));
      }
      return execute(statement.body, inner);
    }
    case Kind::kGeneration:
      return execute(statement.body, runtime_.scope(scope));
  }
  return Flow::kNext;
}

Interpreter::FlowResult Interpreter::execute_if(const Statement& statement, Scope* scope) {
  for (const Branch& branch : statement.branches) {
    if (branch.condition != nullptr) {
      ASSIGN_OR_RETURN(const Value condition, evaluate(*branch.condition, scope));
      if (!truth(condition)) continue;
    }
    return execute(branch.body, scope);
  }
  return Flow::kNext;
}

absl::Status Interpreter::start_loop(Loop* loop, const Statement& statement,
                                     std::vector<Value> items, Scope* scope, int depth0) {
  loop->scope = scope;
  if (statement.recursive) loop->statement = &statement;
  Loop::Condition condition;
  if (statement.expressions[2] != nullptr) {
    Scope* inner = runtime_.scope(scope);
    condition = [this, &statement, inner](const Value& item) -> absl::StatusOr<bool> {
      RETURN_IF_ERROR(assign(*statement.expressions[0], item, inner));
      ASSIGN_OR_RETURN(const Value accepted, evaluate(*statement.expressions[2], inner));
      return truth(accepted);
    };
  }
  loop->start(&runtime_.budget, std::move(items), std::move(condition), depth0);
  return runtime_.budget.status();
}

Interpreter::FlowResult Interpreter::execute_for(const Statement& statement, const Value& items,
                                                 Scope* scope, int depth0) {
  ASSIGN_OR_RETURN(std::vector<Value> all, items_of(runtime_, items));
  Loop* loop = runtime_.loop();
  RETURN_IF_ERROR(start_loop(loop, statement, std::move(all), scope, depth0));
  Scope* inner = runtime_.scope(scope);
  // As in Jinja, the else block is also run where no iteration came to its end.
  bool completed = false;
  while (true) {
    ASSIGN_OR_RETURN(const std::optional<Value> item, loop->next());
    if (!item.has_value()) break;
    runtime_.budget.spend(1);
    RETURN_IF_ERROR(runtime_.budget.status());
    if (inner->captured) inner = runtime_.scope(scope);
    inner->variables.clear();
    inner->variables["loop"] = loop;
    RETURN_IF_ERROR(assign(*statement.expressions[0], *item, inner));
    ASSIGN_OR_RETURN(const Flow flow, execute(statement.body, inner));
    if (flow == Flow::kBreak) break;
    completed |= flow == Flow::kNext;
  }
  loop->finish();
  return !completed ? execute(statement.otherwise, runtime_.scope(scope)) : Flow::kNext;
}

Interpreter::FlowResult Interpreter::execute_set_block(const Statement& statement, Scope* scope) {
  Flow flow = Flow::kNext;
  Scope* inner = runtime_.scope(scope);
  ASSIGN_OR_RETURN(MarkedText text, capture([&] { return execute(statement.body, inner); }, &flow));
  if (flow != Flow::kNext) return flow;
  Value value = runtime_.text(std::move(text));
  if (statement.expressions[1] != nullptr) {
    piped_ = &value;
    ASSIGN_OR_RETURN(Value filtered, evaluate(*statement.expressions[1], scope));
    value = std::move(filtered);
  }
  RETURN_IF_ERROR(assign(*statement.expressions[0], value, scope));
  return Flow::kNext;
}

Interpreter::FlowResult Interpreter::execute_filter(const Statement& statement, Scope* scope) {
  Flow flow = Flow::kNext;
  Scope* inner = runtime_.scope(scope);
  ASSIGN_OR_RETURN(MarkedText text, capture([&] { return execute(statement.body, inner); }, &flow));
  if (flow != Flow::kNext) return flow;
  const Value value = runtime_.text(std::move(text));
  piped_ = &value;
  ASSIGN_OR_RETURN(const Value filtered, evaluate(*statement.expressions[0], inner));
  if (filtered.text() == nullptr) {
    return invalid_argument("the filter of a block has to give a string, not {}",
                            type_name(filtered));
  }
  RETURN_IF_ERROR(print(filtered));
  return Flow::kNext;
}

absl::Status Interpreter::execute_call(const Statement& statement, Scope* scope) {
  Macro* caller = runtime_.macro();
  *caller = {statement.macro.get(), scope};
  scope->capture();
  const Expression& called = *statement.expressions[0];
  ASSIGN_OR_RETURN(const Value callee, evaluate(*called.operands[0], scope));
  ASSIGN_OR_RETURN(Arguments arguments, evaluate_arguments(called, scope));
  arguments.named.emplace_back("caller", static_cast<const Macro*>(caller));
  ASSIGN_OR_RETURN(const Value result, call(callee, arguments));
  return print(result);
}

absl::Status Interpreter::assign(const Expression& target, const Value& value, Scope* scope) {
  if (target.kind == Expression::Kind::kTuple) return unpack(target, value, scope);
  if (target.kind == Expression::Kind::kNamespaceAttribute) {
    return assign_attribute(target, value, scope);
  }
  scope->variables[target.name] = value;
  return absl::OkStatus();
}

absl::Status Interpreter::unpack(const Expression& target, const Value& value, Scope* scope) {
  ASSIGN_OR_RETURN(const std::vector<Value> items, items_of(runtime_, value));
  const size_t wanted = target.operands.size();
  if (items.size() < wanted) {
    return invalid_argument("not enough values to unpack (expected {}, got {})", wanted,
                            items.size());
  }
  if (items.size() > wanted) {
    return invalid_argument("too many values to unpack (expected {})", wanted);
  }
  for (size_t i = 0; i < wanted; ++i) {
    RETURN_IF_ERROR(assign(*target.operands[i], items[i], scope));
  }
  return absl::OkStatus();
}

absl::Status Interpreter::assign_attribute(const Expression& target, const Value& value,
                                           Scope* scope) {
  const Value* found = scope->find(target.name);
  const auto* space = found == nullptr ? nullptr : found->get_if<Namespace*>();
  if (space == nullptr) {
    return invalid_argument("cannot assign attribute on non-namespace object");
  }
  if (target.attribute.starts_with('_')) {
    return invalid_argument("a namespace cannot have an attribute that begins with '_': {}",
                            target.attribute);
  }
  (*space)->attributes.set(runtime_.text(target.attribute), value);
  return runtime_.budget.status();
}

}  // namespace lockstep::jinja

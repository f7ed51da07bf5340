// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "coordinator/text/jinja/interpreter.h"
#include "coordinator/text/jinja/values/format.h"
#include "coordinator/text/jinja/values/operators.h"

namespace lockstep::jinja {
namespace {

using Kind = Statement::Kind;

int64_t memory_of(const MarkedText& text) {
  return static_cast<int64_t>(text.bytes.size() + text.from_request.size() * sizeof(ByteRange));
}

}  // namespace

MarkedText Interpreter::run(const Body& body, Scope* variables) {
  return capture([&] { return execute(body, variables); }).first;
}

template <typename F>
std::pair<MarkedText, Interpreter::Flow> Interpreter::capture(F&& run) {
  MarkedText text;
  MarkedText* outer = std::exchange(output_, &text);
  const Flow flow = run();
  output_ = outer;
  budget_.give_back(memory_of(text));
  return {std::move(text), flow};
}

void Interpreter::print(const Value& value) {
  const int64_t before = memory_of(*output_);
  append_str(runtime_, value, output_);
  budget_.take(memory_of(*output_) - before);
}

Interpreter::Flow Interpreter::execute(const Body& body, Scope* scope) {
  Flow flow = Flow::kNext;
  for (size_t i = 0; i < body.size() && flow == Flow::kNext && budget_.ok(); ++i) {
    flow = execute(body[i], scope);
  }
  return flow;
}

Interpreter::Flow Interpreter::execute(const Statement& statement, Scope* scope) {
  const Level level(&frames_);
  const Flow flow = budget_.spend(1) ? dispatch(statement, scope) : Flow::kNext;
  if (!budget_.ok() && error_line_ == 0) error_line_ = statement.line;
  return flow;
}

Interpreter::Flow Interpreter::dispatch(const Statement& statement, Scope* scope) {
  switch (statement.kind) {
    case Kind::kData: {
      const size_t size = statement.text.bytes.size();
      if (!budget_.check_text(output_->bytes.size() + size)) break;
      budget_.copy(size);
      budget_.take(static_cast<int64_t>(size));
      output_->append(statement.text);
      break;
    }
    case Kind::kOutput:
      for (const ExpressionPtr& expression : statement.expressions) {
        const Value value = evaluate(*expression, scope);
        if (budget_.ok()) print(value);
      }
      break;
    case Kind::kSet:
      assign(*statement.expressions[0], evaluate(*statement.expressions[1], scope), scope);
      break;
    case Kind::kSetBlock:
    case Kind::kFilter:
      return execute_captured(statement, scope);
    case Kind::kIf:
      return execute_if(statement, scope);
    case Kind::kFor:
      return execute_for(statement, evaluate(*statement.expressions[1], scope), scope, 0);
    case Kind::kBreak:
      return Flow::kBreak;
    case Kind::kContinue:
      return Flow::kContinue;
    case Kind::kMacro:
      scope->variables[statement.macro->name] = make_macro(statement, scope);
      break;
    case Kind::kCallBlock:
      execute_call(statement, scope);
      break;
    case Kind::kWith: {
      Scope* inner = runtime_.scope(scope);
      for (size_t i = 0; i < statement.expressions.size(); i += 2) {
        assign(*statement.expressions[i], evaluate(*statement.expressions[i + 1], scope), inner);
      }
      return execute(statement.body, inner);
    }
    case Kind::kGeneration:
      return execute(statement.body, runtime_.scope(scope));
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute_if(const Statement& statement, Scope* scope) {
  for (const Branch& branch : statement.branches) {
    const bool chosen = branch.condition == nullptr || truth(evaluate(*branch.condition, scope));
    if (chosen || !budget_.ok()) return execute(branch.body, scope);
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute_for(const Statement& statement, const Value& items,
                                           Scope* scope, int depth0) {
  const Expression& target = *statement.expressions[0];
  Loop::Condition condition;
  if (statement.expressions[2] != nullptr) {
    condition = [this, &target, &asked = *statement.expressions[2],
                 inner = runtime_.scope(scope)](const Value& item) {
      assign(target, item, inner);
      return truth(evaluate(asked, inner));
    };
  }
  std::vector<Value> all = items_of(runtime_, items);
  Loop* loop = runtime_.keep(Loop(&budget_, std::move(all), std::move(condition),
                                  statement.recursive ? &statement : nullptr, scope, depth0));
  Scope* inner = runtime_.scope(scope);
  // The else block also runs if no iteration reached the end of the body, as in Jinja.
  bool completed = false;
  while (budget_.ok()) {
    const std::optional<Value> item = loop->next();
    if (!item.has_value() || !budget_.spend(1)) break;
    if (inner->captured) inner = runtime_.scope(scope);
    inner->variables.clear();
    inner->variables["loop"] = loop;
    assign(target, *item, inner);
    const Flow flow = execute(statement.body, inner);
    if (flow == Flow::kBreak) break;
    completed |= flow == Flow::kNext;
  }
  loop->finish();
  return completed ? Flow::kNext : execute(statement.otherwise, runtime_.scope(scope));
}

// A block of set or filter: its text, or the filters' result, is assigned or printed.
Interpreter::Flow Interpreter::execute_captured(const Statement& statement, Scope* scope) {
  const bool is_set = statement.kind == Kind::kSetBlock;
  Scope* inner = runtime_.scope(scope);
  auto [text, flow] = capture([&] { return execute(statement.body, inner); });
  if (flow != Flow::kNext || !budget_.ok()) return flow;
  Value value = runtime_.text(std::move(text));
  if (const Expression* filters = statement.expressions[0].get()) {
    const Value piped = std::move(value);
    piped_ = &piped;
    value = evaluate(*filters, is_set ? scope : inner);
  }
  if (is_set) {
    assign(*statement.expressions[1], value, scope);
  } else if (value.text() != nullptr) {
    print(value);
  } else {
    budget_.refuse("the filter of a block must return a string, not {}", value.type_name());
  }
  return Flow::kNext;
}

const Macro* Interpreter::make_macro(const Statement& statement, Scope* scope) {
  scope->capture();
  return runtime_.keep(Macro{statement.macro.get(), scope});
}

void Interpreter::execute_call(const Statement& statement, Scope* scope) {
  const Macro* caller = make_macro(statement, scope);
  const Expression& called = *statement.expressions[0];
  const Value callee = evaluate(*called.operands[0], scope);
  Arguments arguments = evaluate_arguments(called, scope);
  arguments.named.emplace_back("caller", caller);
  if (budget_.ok()) print(call(callee, arguments));
}

void Interpreter::assign(const Expression& target, const Value& value, Scope* scope) {
  if (!budget_.ok()) return;
  if (target.kind == Expression::Kind::kTuple) {
    unpack(target, value, scope);
  } else if (target.kind == Expression::Kind::kNamespaceAttribute) {
    assign_attribute(target, value, scope);
  } else {
    scope->variables[target.name] = value;
  }
}

void Interpreter::unpack(const Expression& target, const Value& value, Scope* scope) {
  const std::vector<Value> items = items_of(runtime_, value);
  const size_t wanted = target.operands.size();
  if (items.size() < wanted) {
    budget_.refuse("not enough values to unpack (expected {}, got {})", wanted, items.size());
  } else if (items.size() > wanted) {
    budget_.refuse("too many values to unpack (expected {})", wanted);
  } else {
    for (size_t i = 0; i < wanted; ++i) assign(*target.operands[i], items[i], scope);
  }
}

void Interpreter::assign_attribute(const Expression& target, const Value& value, Scope* scope) {
  const Value* found = scope->find(target.name);
  const auto* space = found == nullptr ? nullptr : found->get_if<Namespace*>();
  if (space == nullptr) {
    budget_.refuse("cannot assign attribute on non-namespace object");
  } else if (target.attribute.starts_with('_')) {
    budget_.refuse("a namespace cannot have an attribute that begins with '_': {}",
                   target.attribute);
  } else {
    (*space)->attributes.set(runtime_.text(target.attribute), value);
  }
}

Value Interpreter::call(const Value& callee, const Arguments& arguments) {
  if (!budget_.ok()) return {};
  if (const FunctionRef* function = callee.get_if<FunctionRef>()) {
    return run_builtin(runtime_, *(*function)->builtin, (*function)->self, arguments);
  }
  const Level level(&calls_);
  const int max = budget_.limits().depth;
  if (calls_ > max) return budget_.exhausted("more than {} nested calls", max);
  if (const auto* macro = callee.get_if<const Macro*>()) {
    return runtime_.text(call_macro(**macro, arguments));
  }
  if (const auto* loop = callee.get_if<Loop*>()) {
    return runtime_.text(call_loop(**loop, arguments));
  }
  return wrong_type(budget_, callee, "'{}' object is not callable", callee.type_name());
}

MarkedText Interpreter::call_macro(const Macro& macro, const Arguments& arguments) {
  Scope* scope = runtime_.scope(macro.scope);
  bind(*macro.syntax, arguments, scope);
  return capture([&] { return execute(macro.syntax->body, scope); }).first;
}

// Sets the parameters, and varargs, kwargs and caller if the body uses them.
void Interpreter::bind(const MacroSyntax& macro, const Arguments& arguments, Scope* scope) {
  const auto& positional = arguments.positional;
  const size_t bound = std::min(macro.parameters.size(), positional.size());
  for (size_t i = 0; i < bound; ++i) scope->variables[macro.parameters[i]] = positional[i];
  Dict rest;
  for (const auto& [name, value] : arguments.named) {
    const auto parameter = std::find(macro.parameters.begin() + static_cast<ptrdiff_t>(bound),
                                     macro.parameters.end(), name);
    if (parameter != macro.parameters.end()) {
      scope->variables[*parameter] = value;
    } else if (name == "caller" && macro.uses_caller) {
      scope->variables["caller"] = value;
    } else if (macro.uses_kwargs) {
      rest.set(runtime_.text(name), value);
    } else {
      budget_.refuse("macro '{}' takes no keyword argument '{}'", macro.name, name);
    }
  }
  if (macro.uses_caller) {
    scope->variables.try_emplace("caller", Value::undefined("No caller defined"));
  }
  if (macro.uses_kwargs) scope->variables["kwargs"] = runtime_.dict(std::move(rest));
  if (macro.uses_varargs) {
    const auto first = positional.begin() + static_cast<ptrdiff_t>(bound);
    scope->variables["varargs"] = runtime_.tuple({first, positional.end()});
  } else if (positional.size() > bound) {
    budget_.refuse("macro '{}' takes not more than {} argument(s)", macro.name,
                   macro.parameters.size());
  }
  bind_defaults(macro, scope);
}

void Interpreter::bind_defaults(const MacroSyntax& macro, Scope* scope) {
  const size_t without = macro.parameters.size() - macro.defaults.size();
  for (size_t i = 0; i < macro.parameters.size() && budget_.ok(); ++i) {
    const std::string& name = macro.parameters[i];
    if (scope->variables.contains(name)) continue;
    Value value = i < without
                      ? Value::undefined(fmt::format("parameter '{}' was not provided", name))
                      : evaluate(*macro.defaults[i - without], scope);
    scope->variables[name] = std::move(value);
  }
}

// loop(items): runs the body of a recursive loop again, with other items.
MarkedText Interpreter::call_loop(const Loop& loop, const Arguments& arguments) {
  if (loop.statement == nullptr) {
    return budget_.refuse("The loop must have the 'recursive' marker to be called recursively.");
  }
  if (arguments.positional.size() != 1 || !arguments.named.empty()) {
    return budget_.refuse("loop: must have one argument, the items");
  }
  const auto run = [&] {
    return execute_for(*loop.statement, arguments.positional[0], loop.scope, loop.depth0 + 1);
  };
  return capture(run).first;
}

}  // namespace lockstep::jinja

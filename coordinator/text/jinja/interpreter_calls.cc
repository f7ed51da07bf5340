// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "coordinator/text/jinja/interpreter.h"
#include "coordinator/text/jinja/operators.h"

namespace lockstep::jinja {

Result Interpreter::call(const Value& callee, const Arguments& arguments) {
  if (const FunctionRef* function = callee.get_if<FunctionRef>()) {
    return run_builtin(runtime_, *(*function)->builtin, (*function)->self, arguments);
  }
  const Level level(&calls_);
  if (calls_ > runtime_.budget.limits().depth) {
    return resource_exhausted("more than {} calls in each other", runtime_.budget.limits().depth);
  }
  if (const auto* macro = callee.get_if<const Macro*>()) return call_macro(**macro, arguments);
  if (const auto* loop = callee.get_if<Loop*>()) return call_loop(**loop, arguments);
  if (callee.is_undefined()) return undefined_error(callee);
  return invalid_argument("'{}' object is not callable", type_name(callee));
}

Result Interpreter::call_macro(const Macro& macro, const Arguments& arguments) {
  Scope* scope = runtime_.scope(macro.scope);
  RETURN_IF_ERROR(bind(*macro.syntax, arguments, scope));
  ASSIGN_OR_RETURN(MarkedText text, capture([&] { return execute(macro.syntax->body, scope); }));
  return runtime_.text(std::move(text));
}

// Gives the parameters their values, and varargs, kwargs and caller theirs where the body asks.
absl::Status Interpreter::bind(const MacroSyntax& macro, const Arguments& arguments, Scope* scope) {
  const size_t count = macro.parameters.size();
  const auto& positional = arguments.positional;
  for (size_t i = 0; i < std::min(count, positional.size()); ++i) {
    scope->variables[macro.parameters[i]] = positional[i];
  }
  Dict rest;
  for (const auto& [name, value] : arguments.named) {
    const auto parameter = std::ranges::find(macro.parameters, name);
    const auto index = static_cast<size_t>(parameter - macro.parameters.begin());
    if (parameter != macro.parameters.end() && index >= positional.size()) {
      scope->variables[*parameter] = value;
    } else if (name == "caller" && macro.uses_caller) {
      scope->variables["caller"] = value;
    } else if (macro.uses_kwargs) {
      rest.set(runtime_.text(name), value);
    } else {
      return invalid_argument("macro '{}' takes no keyword argument '{}'", macro.name, name);
    }
  }
  if (macro.uses_caller) {
    scope->variables.try_emplace("caller", Value::undefined("No caller defined"));
  }
  if (macro.uses_kwargs) scope->variables["kwargs"] = runtime_.dict(std::move(rest));
  if (macro.uses_varargs) {
    const auto first =
        positional.begin() + static_cast<ptrdiff_t>(std::min(count, positional.size()));
    scope->variables["varargs"] = runtime_.tuple({first, positional.end()});
  } else if (positional.size() > count) {
    return invalid_argument("macro '{}' takes not more than {} argument(s)", macro.name, count);
  }
  return bind_defaults(macro, scope);
}

absl::Status Interpreter::bind_defaults(const MacroSyntax& macro, Scope* scope) {
  const size_t without = macro.parameters.size() - macro.defaults.size();
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    const std::string& name = macro.parameters[i];
    if (scope->variables.contains(name)) continue;
    if (i < without) {
      scope->variables[name] =
          Value::undefined(fmt::format("parameter '{}' was not provided", name));
    } else {
      ASSIGN_OR_RETURN(Value value, evaluate(*macro.defaults[i - without], scope));
      scope->variables[name] = std::move(value);
    }
  }
  return absl::OkStatus();
}

// loop(items): the body of a recursive loop again, with other items.
Result Interpreter::call_loop(const Loop& loop, const Arguments& arguments) {
  if (loop.statement == nullptr) {
    return invalid_argument("The loop must have the 'recursive' marker to be called recursively.");
  }
  if (arguments.positional.size() != 1 || !arguments.named.empty()) {
    return invalid_argument("loop: wanted one argument, the items");
  }
  ASSIGN_OR_RETURN(MarkedText text, capture([&] {
                     return execute_for(*loop.statement, arguments.positional[0], loop.scope,
                                        loop.depth0() + 1);
                   }));
  return runtime_.text(std::move(text));
}

}  // namespace lockstep::jinja

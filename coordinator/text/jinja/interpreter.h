// SPDX-License-Identifier: Apache-2.0
// Runs a template's tree: evaluates expressions, executes statements, calls macros. Used once, by
// one thread. After a failure, the runtime's budget has the error, and all work ends.
#pragma once

#include <string_view>
#include <utility>

#include "coordinator/text/jinja/values/builtin.h"
#include "coordinator/text/jinja/values/runtime.h"

namespace lockstep::jinja {

class Interpreter {
 public:
  explicit Interpreter(Runtime& runtime) : runtime_(runtime), budget_(runtime.budget) {}

  // Executes the template with these variables.
  MarkedText run(const Body& body, Scope* variables);
  // The line at which the budget failed; 0: it did not fail.
  int error_line() const { return error_line_; }

 private:
  // The next action after a statement. kNext: the next statement. kContinue, kBreak: the statements
  // `continue` and `break` of a loop.
  enum class Flow : uint8_t { kNext, kContinue, kBreak };

  // Statements (statements.cc).
  Flow execute(const Body& body, Scope* scope);
  Flow execute(const Statement& statement, Scope* scope);
  Flow dispatch(const Statement& statement, Scope* scope);
  Flow execute_if(const Statement& statement, Scope* scope);
  Flow execute_for(const Statement& statement, const Value& items, Scope* scope, int depth0);
  Flow execute_captured(const Statement& statement, Scope* scope);
  void execute_call(const Statement& statement, Scope* scope);
  const Macro* make_macro(const Statement& statement, Scope* scope);
  void assign(const Expression& target, const Value& value, Scope* scope);
  void unpack(const Expression& target, const Value& value, Scope* scope);
  void assign_attribute(const Expression& target, const Value& value, Scope* scope);
  void print(const Value& value);
  // Runs `run`; returns what it printed and how it ended.
  template <typename F>
  std::pair<MarkedText, Flow> capture(F&& run);

  // Expressions (expressions.cc).
  Value evaluate(const Expression& expression, Scope* scope);
  Value dispatch(const Expression& expression, Scope* scope);
  std::vector<Value> evaluate_all(const Expression& expression, Scope* scope);
  Value evaluate_name(const Expression& expression, Scope* scope);
  Value evaluate_dict(const Expression& expression, Scope* scope);
  Value evaluate_slice(const Expression& expression, Scope* scope);
  Value evaluate_builtin(const Expression& expression, Scope* scope);
  Value evaluate_logic(const Expression& expression, Scope* scope);
  Value evaluate_concat(const Expression& expression, Scope* scope);
  Value evaluate_arithmetic(const Expression& expression, Scope* scope);
  Value evaluate_compare(const Expression& expression, Scope* scope);
  Value evaluate_conditional(const Expression& expression, Scope* scope);
  Arguments evaluate_arguments(const Expression& expression, Scope* scope);

  // Calls.
  Value call(const Value& callee, const Arguments& arguments);
  MarkedText call_macro(const Macro& macro, const Arguments& arguments);
  MarkedText call_loop(const Loop& loop, const Arguments& arguments);
  void bind(const MacroSyntax& macro, const Arguments& arguments, Scope* scope);
  void bind_defaults(const MacroSyntax& macro, Scope* scope);

  Runtime& runtime_;
  Budget& budget_;
  MarkedText* output_ = nullptr;  // Receives the printed text.
  const Value* piped_ = nullptr;  // The block's text, the input of its first filter.
  int frames_ = 0;                // The nesting of evaluate() and execute().
  int calls_ = 0;                 // The nesting of macros and loops.
  int error_line_ = 0;
};

}  // namespace lockstep::jinja

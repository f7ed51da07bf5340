// SPDX-License-Identifier: Apache-2.0
// Runs a template's tree: evaluates expressions, executes statements, calls macros. Used once, by
// one thread.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "coordinator/text/jinja/builtin.h"
#include "coordinator/text/jinja/loop.h"
#include "coordinator/text/jinja/runtime.h"

namespace lockstep::jinja {

class Interpreter {
 public:
  explicit Interpreter(Runtime& runtime) : runtime_(runtime) {}

  // Executes the template with these variables. The Status names no line: error_line() does.
  absl::StatusOr<MarkedText> run(const Body& body, Scope* variables);
  int error_line() const { return error_line_; }

 private:
  // What follows a statement: the next one, or the end of a loop's body or of a loop.
  enum class Flow : uint8_t { kNext, kContinue, kBreak };
  using FlowResult = absl::StatusOr<Flow>;

  // Statements (interpreter_statements.cc).
  FlowResult execute(const Body& body, Scope* scope);
  FlowResult execute(const Statement& statement, Scope* scope);
  FlowResult dispatch(const Statement& statement, Scope* scope);
  FlowResult execute_if(const Statement& statement, Scope* scope);
  FlowResult execute_for(const Statement& statement, const Value& items, Scope* scope, int depth0);
  FlowResult execute_set_block(const Statement& statement, Scope* scope);
  FlowResult execute_filter(const Statement& statement, Scope* scope);
  absl::Status execute_call(const Statement& statement, Scope* scope);
  absl::Status start_loop(Loop* loop, const Statement& statement, std::vector<Value> items,
                          Scope* scope, int depth0);
  absl::Status assign(const Expression& target, const Value& value, Scope* scope);
  absl::Status unpack(const Expression& target, const Value& value, Scope* scope);
  absl::Status assign_attribute(const Expression& target, const Value& value, Scope* scope);
  absl::Status print(const Value& value);
  // What is printed while this runs; `flow`, where it is not null, says how it ended.
  absl::StatusOr<MarkedText> capture(const std::function<FlowResult()>& run, Flow* flow = nullptr);

  // Expressions (interpreter_expressions.cc).
  Result evaluate(const Expression& expression, Scope* scope);
  Result dispatch(const Expression& expression, Scope* scope);
  Result evaluate_name(const Expression& expression, Scope* scope);
  Result evaluate_items(const Expression& expression, Scope* scope);
  Result evaluate_dict(const Expression& expression, Scope* scope);
  Result evaluate_access(const Expression& expression, Scope* scope);
  Result evaluate_builtin(const Expression& expression, Scope* scope);
  Result evaluate_logic(const Expression& expression, Scope* scope);
  Result evaluate_concat(const Expression& expression, Scope* scope);
  Result evaluate_arithmetic(const Expression& expression, Scope* scope);
  Result evaluate_compare(const Expression& expression, Scope* scope);
  Result evaluate_conditional(const Expression& expression, Scope* scope);
  absl::StatusOr<Arguments> evaluate_arguments(const Expression& expression, Scope* scope);

  // Calls (interpreter_calls.cc).
  Result call(const Value& callee, const Arguments& arguments);
  Result call_macro(const Macro& macro, const Arguments& arguments);
  Result call_loop(const Loop& loop, const Arguments& arguments);
  absl::Status bind(const MacroSyntax& macro, const Arguments& arguments, Scope* scope);
  absl::Status bind_defaults(const MacroSyntax& macro, Scope* scope);

  // Counts a level of something, and gives it back.
  class Level {
   public:
    explicit Level(int* count) : count_(count) { ++*count_; }
    ~Level() { --*count_; }

   private:
    int* count_;
  };

  Runtime& runtime_;
  MarkedText* output_ = nullptr;  // What is printed goes here.
  const Value* piped_ = nullptr;  // What the first filter of a block filters.
  int frames_ = 0;                // Of evaluate and execute in each other.
  int calls_ = 0;                 // Of macros and recursive loops in each other.
  int error_line_ = 0;
};

}  // namespace lockstep::jinja

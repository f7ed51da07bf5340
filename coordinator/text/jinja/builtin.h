// SPDX-License-Identifier: Apache-2.0
// Filters, tests, methods and functions: rows of tables that name their parameters, so that all
// are called alike.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/text/jinja/runtime.h"

namespace lockstep::jinja {

// What stands in the brackets of a call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

class Call;
struct Builtin {
  std::string_view name;
  // Names with blanks between them, "?" after one that may be left out: "old new count?". "*": any
  // arguments, which the function reads from Call::arguments.
  std::string_view parameters;
  Result (*run)(Call& call);
};

// One call of a builtin, its arguments bound to the parameters.
class Call {
 public:
  Runtime& runtime;
  const Builtin& builtin;
  const Value& self;  // What is filtered or tested, or whose method it is.
  const Arguments& arguments;

  Budget& budget() { return runtime.budget; }
  // Null where it was left out.
  const Value* get(size_t index) const { return bound_[index]; }
  const Value& operator[](size_t index) const { return *bound_[index]; }
  bool has(size_t index) const { return bound_[index] != nullptr; }
  // Null where it was left out or is none.
  const Value* given(size_t index) const {
    return has(index) && !bound_[index]->is_none() ? bound_[index] : nullptr;
  }
  bool truth_or(size_t index, bool fallback) const;
  // Errors that name the parameter where it is of another type.
  absl::StatusOr<int64_t> integer_or(size_t index, int64_t fallback) const;
  absl::StatusOr<const Text*> text(size_t index) const;

  // The value that is filtered as a text, as str() makes it.
  absl::StatusOr<MarkedText> self_str() { return str(self); }
  absl::StatusOr<MarkedText> str(const Value& value);

  absl::Status wrong_type(size_t index, std::string_view wanted) const;

 private:
  friend Result run_builtin(Runtime&, const Builtin&, const Value&, const Arguments&);
  Call(Runtime& runtime, const Builtin& builtin, const Value& self, const Arguments& arguments)
      : runtime(runtime), builtin(builtin), self(self), arguments(arguments) {}
  absl::Status bind();
  std::string_view parameter(size_t index) const;

  std::vector<const Value*> bound_;
};

Result run_builtin(Runtime& runtime, const Builtin& builtin, const Value& self,
                   const Arguments& arguments);

// A builtin as a value; bound to `self` where it is a method.
struct Function {
  const Builtin* builtin;
  Value self;
};

// Null where there is none of this name.
const Builtin* find_builtin(std::span<const Builtin> table, std::string_view name);
const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
// Finds range, namespace, dict, joiner, cycler, raise_exception and strftime_now.
const Builtin* find_function(std::string_view name);
const Builtin* find_method(const Value& value, std::string_view name);

// The tables, each in a file of its own.
std::span<const Builtin> text_filters();
std::span<const Builtin> number_filters();
std::span<const Builtin> sequence_filters();
std::span<const Builtin> order_filters();
std::span<const Builtin> select_filters();
std::span<const Builtin> text_methods();
std::span<const Builtin> text_tests();

}  // namespace lockstep::jinja

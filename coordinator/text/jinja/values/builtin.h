// SPDX-License-Identifier: Apache-2.0
// Filters, tests, methods and functions: rows of tables that name their parameters, so that all are
// called in the same way.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coordinator/text/jinja/values/runtime.h"

namespace lockstep::jinja {

// The arguments of a call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

class Call;
struct Builtin {
  std::string_view name;
  // Names separated by blanks, with "?" after an optional one: "old new count?". "*": any
  // arguments, which the function reads from Call::arguments. ".": an attribute, which is read and
  // not called.
  std::string_view parameters;
  Value (*run)(Call& call);
};

// One call of a builtin, with its arguments bound to the parameters.
class Call {
 public:
  Call(Runtime& in, const Builtin& called, const Value& of, const Arguments& with)
      : runtime(in), budget(in.budget), builtin(called), self(of), arguments(with) {}

  Runtime& runtime;
  Budget& budget;
  const Builtin& builtin;
  const Value& self;  // The value that is filtered or tested, or whose method is called.
  const Arguments& arguments;

  // Fails if the arguments do not fit the parameters.
  bool bind();

  const Value& operator[](size_t index) const { return *bound_[index]; }
  bool has(size_t index) const { return bound_[index] != nullptr; }
  // Whether the argument is given and not none.
  bool given(size_t index) const { return has(index) && !bound_[index]->is_none(); }
  const Value* given_or_null(size_t index) const { return given(index) ? bound_[index] : nullptr; }
  Value value_or(size_t index, const Value& fallback) const {
    return has(index) ? *bound_[index] : fallback;
  }

  // These fail if the argument has another type, with an error that names the parameter.
  bool truth_or(size_t index, bool fallback) const;
  int64_t integer_or(size_t index, int64_t fallback) const;
  const Text& text(size_t index) const;  // Empty if it failed.
  std::string_view text_or(size_t index, std::string_view fallback) const {
    return has(index) ? std::string_view(text(index).bytes()) : fallback;
  }
  Failed wrong_argument(size_t index, std::string_view wanted) const;

  // The value's text as str() gives it.
  MarkedText str(const Value& value) const;

 private:
  std::string_view parameter(size_t index) const;

  std::vector<const Value*> bound_;
};

Value run_builtin(Runtime& runtime, const Builtin& builtin, const Value& self,
                  const Arguments& arguments);

// A builtin as a value; a method is bound to `self`.
struct Function {
  const Builtin* builtin;
  Value self;
};

// Null if there is none of this name.
const Builtin* find_builtin(std::span<const Builtin> table, std::string_view name);
const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
// Finds range, namespace, dict, joiner, cycler, raise_exception and strftime_now.
const Builtin* find_function(std::string_view name);
const Builtin* find_member(const Value& value, std::string_view name);

// The tables, each in its own file.
std::span<const Builtin> text_filters();
std::span<const Builtin> number_filters();
std::span<const Builtin> sequence_filters();
std::span<const Builtin> order_filters();
std::span<const Builtin> text_methods();

}  // namespace lockstep::jinja

// SPDX-License-Identifier: Apache-2.0
#include "coordinator/text/jinja/values/builtin.h"

#include <algorithm>

#include "coordinator/text/jinja/values/format.h"
#include "coordinator/text/jinja/values/operators.h"

namespace lockstep::jinja {
namespace {

// Removes and returns the first name, with its "?", of a list of parameters.
std::string_view next_word(std::string_view* words) {
  const size_t end = std::min(words->find(' '), words->size());
  const std::string_view word = words->substr(0, end);
  words->remove_prefix(std::min(end + 1, words->size()));
  return word;
}

}  // namespace

bool Call::bind() {
  if (builtin.parameters == "*") return true;
  size_t named_used = 0;
  std::string_view words = builtin.parameters;
  while (!words.empty()) {
    std::string_view word = next_word(&words);
    const bool optional = word.ends_with('?');
    if (optional) word.remove_suffix(1);
    const size_t index = bound_.size();
    const auto named = std::ranges::find(arguments.named, word, [](const auto& argument) {
      return std::string_view(argument.first);
    });
    const Value* value =
        index < arguments.positional.size() ? &arguments.positional[index] : nullptr;
    if (named != arguments.named.end()) {
      if (value != nullptr) {
        return budget.refuse("{}: two values for the argument '{}'", builtin.name, word);
      }
      value = &named->second;
      ++named_used;
    }
    if (value == nullptr && !optional) {
      return budget.refuse("{}: the argument '{}' is missing", builtin.name, word);
    }
    bound_.push_back(value);
  }
  if (arguments.positional.size() > bound_.size()) {
    return budget.refuse("{}: takes at most {} arguments, got {}", builtin.name, bound_.size(),
                         arguments.positional.size());
  }
  if (named_used < arguments.named.size()) {
    return budget.refuse("{}: got an argument that it does not take: its arguments are: {}",
                         builtin.name, bound_.empty() ? "none" : builtin.parameters);
  }
  return true;
}

std::string_view Call::parameter(size_t index) const {
  std::string_view words = builtin.parameters;
  for (size_t i = 0; i < index; ++i) next_word(&words);
  const std::string_view word = next_word(&words);
  return word.ends_with('?') ? word.substr(0, word.size() - 1) : word;
}

Failed Call::wrong_argument(size_t index, std::string_view wanted) const {
  return wrong_type(budget, (*this)[index], "{}: '{}' has to be {}, not {}", builtin.name,
                    parameter(index), wanted, (*this)[index].type_name());
}

bool Call::truth_or(size_t index, bool fallback) const {
  return has(index) ? truth((*this)[index]) : fallback;
}

int64_t Call::integer_or(size_t index, int64_t fallback) const {
  if (!has(index)) return fallback;
  if (!(*this)[index].is_integer()) return wrong_argument(index, "an integer");
  return (*this)[index].integer();
}

const Text& Call::text(size_t index) const {
  static const Text kEmpty = {};
  if ((*this)[index].text() != nullptr) return *(*this)[index].text();
  wrong_argument(index, "a string");
  return kEmpty;
}

MarkedText Call::str(const Value& value) const { return str_of(runtime, value); }

Value run_builtin(Runtime& runtime, const Builtin& builtin, const Value& self,
                  const Arguments& arguments) {
  Call call(runtime, builtin, self, arguments);
  return runtime.budget.spend(1) && call.bind() ? builtin.run(call) : Value();
}

const Builtin* find_builtin(std::span<const Builtin> table, std::string_view name) {
  const auto found = std::ranges::find(table, name, &Builtin::name);
  return found == table.end() ? nullptr : &*found;
}

const Builtin* find_filter(std::string_view name) {
  for (const auto& table :
       {text_filters(), number_filters(), sequence_filters(), order_filters()}) {
    if (const Builtin* found = find_builtin(table, name)) return found;
  }
  return nullptr;
}

}  // namespace lockstep::jinja

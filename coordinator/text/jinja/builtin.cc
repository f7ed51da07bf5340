// SPDX-License-Identifier: Apache-2.0
#include "coordinator/text/jinja/builtin.h"

#include <algorithm>

#include "coordinator/text/jinja/operators.h"
#include "coordinator/text/jinja/show.h"

namespace lockstep::jinja {
namespace {

// Takes the first name, with its "?", from a list of parameters.
std::string_view next_word(std::string_view* words) {
  const size_t end = std::min(words->find(' '), words->size());
  const std::string_view word = words->substr(0, end);
  words->remove_prefix(std::min(end + 1, words->size()));
  return word;
}

}  // namespace

absl::Status Call::bind() {
  if (builtin.parameters == "*") return absl::OkStatus();
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
        return invalid_argument("{}: two values for the argument '{}'", builtin.name, word);
      }
      value = &named->second;
      ++named_used;
    }
    if (value == nullptr && !optional) {
      return invalid_argument("{}: the argument '{}' is missing", builtin.name, word);
    }
    bound_.push_back(value);
  }
  if (arguments.positional.size() > bound_.size()) {
    return invalid_argument("{}: takes at most {} arguments, got {}", builtin.name, bound_.size(),
                            arguments.positional.size());
  }
  if (named_used < arguments.named.size()) {
    return invalid_argument("{}: got an argument that it does not take: its arguments are: {}",
                            builtin.name, bound_.empty() ? "none" : builtin.parameters);
  }
  return absl::OkStatus();
}

std::string_view Call::parameter(size_t index) const {
  std::string_view words = builtin.parameters;
  for (size_t i = 0; i < index; ++i) next_word(&words);
  const std::string_view word = next_word(&words);
  return word.ends_with('?') ? word.substr(0, word.size() - 1) : word;
}

absl::Status Call::wrong_type(size_t index, std::string_view wanted) const {
  if ((*this)[index].is_undefined()) return undefined_error((*this)[index]);
  return invalid_argument("{}: '{}' has to be {}, not {}", builtin.name, parameter(index), wanted,
                          type_name((*this)[index]));
}

bool Call::truth_or(size_t index, bool fallback) const {
  return has(index) ? truth((*this)[index]) : fallback;
}

absl::StatusOr<int64_t> Call::integer_or(size_t index, int64_t fallback) const {
  if (!has(index)) return fallback;
  if (!(*this)[index].is_integer()) return wrong_type(index, "an integer");
  return (*this)[index].integer();
}

absl::StatusOr<const Text*> Call::text(size_t index) const {
  if ((*this)[index].text() == nullptr) return wrong_type(index, "a string");
  return (*this)[index].text();
}

absl::StatusOr<MarkedText> Call::str(const Value& value) { return str_of(runtime, value); }

Result run_builtin(Runtime& runtime, const Builtin& builtin, const Value& self,
                   const Arguments& arguments) {
  runtime.budget.spend(1);
  Call call(runtime, builtin, self, arguments);
  RETURN_IF_ERROR(call.bind());
  Result result = builtin.run(call);
  RETURN_IF_ERROR(runtime.budget.status());
  return result;
}

const Builtin* find_builtin(std::span<const Builtin> table, std::string_view name) {
  const auto found = std::ranges::find(table, name, &Builtin::name);
  return found == table.end() ? nullptr : &*found;
}

const Builtin* find_filter(std::string_view name) {
  for (const auto& table :
       {text_filters(), number_filters(), sequence_filters(), select_filters(), order_filters()}) {
    if (const Builtin* found = find_builtin(table, name)) return found;
  }
  return nullptr;
}

}  // namespace lockstep::jinja

// SPDX-License-Identifier: Apache-2.0
#include "coordinator/text/jinja/values/value.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text_map.h"
#include "coordinator/text/jinja/values/dict.h"
#include "coordinator/text/jinja/values/operators.h"

namespace lockstep::jinja {

namespace {

template <typename Number>
size_t hash_of(const Number& number) {
  return TextHash()({reinterpret_cast<const char*>(&number), sizeof(number)});
}

}  // namespace

size_t KeyHash::operator()(std::string_view key) const { return TextHash()(key); }

size_t KeyHash::operator()(const Value& key) const {
  if (const Text* text = key.text()) return (*this)(std::string_view(text->bytes()));
  if (key.is_integer()) return hash_of<int64_t>(key.integer());
  if (const Unsigned* number = key.get_if<Unsigned>()) return hash_of(*number);
  if (const double* number = key.get_if<double>()) {
    const bool is_whole = *number == std::floor(*number) && std::fabs(*number) < 0x1p62;
    return is_whole ? hash_of(static_cast<int64_t>(*number)) : hash_of(*number);
  }
  size_t hash = 0;
  if (const Sequence* sequence = key.sequence()) {
    for (const Value& item : sequence->items) hash = hash_of(std::array{hash, (*this)(item)});
  }
  return hash;
}

// All NaNs are one key: their hashes are the same.
bool KeyEqual::operator()(const Value& a, const Value& b) const {
  const auto is_nan = [](const Value& value) {
    const double* number = value.get_if<double>();
    return number != nullptr && std::isnan(*number);
  };
  if (is_nan(a) && is_nan(b)) return true;
  Budget unlimited({.steps = INT64_MAX >> 13});
  return equal(unlimited, a, b);
}

bool KeyEqual::operator()(const Value& a, std::string_view b) const {
  return a.text() != nullptr && a.text()->bytes() == b;
}

bool is_hashable(Budget& budget, const Value& key) {
  constexpr size_t kMaxItems = 16;
  if (key.text() != nullptr) budget.copy(key.text()->bytes().size());
  if (key.dict() != nullptr) return false;
  const Sequence* sequence = key.sequence();
  if (sequence == nullptr) return true;
  return sequence->type == Sequence::Type::kTuple && sequence->items.size() <= kMaxItems &&
         std::ranges::all_of(sequence->items, [&budget](const Value& item) {
           return item.sequence() == nullptr && is_hashable(budget, item);
         });
}

bool check_hashable(Budget& budget, const Value& key) {
  if (!is_hashable(budget, key)) budget.refuse("unhashable type: '{}'", key.type_name());
  return budget.ok();
}

void Dict::set(Value key, Value value) {
  const auto [place, fresh] = index_.try_emplace(key, entries.size());
  if (fresh) {
    entries.emplace_back(std::move(key), std::move(value));
  } else {
    entries[place->second].second = std::move(value);
  }
}

std::string_view Sequence::type_name() const {
  constexpr std::string_view kNames[] = {"list",        "tuple",      "range",    "dict_keys",
                                         "dict_values", "dict_items", "generator"};
  return kNames[static_cast<size_t>(type)];
}

std::string_view Value::type_name() const {
  constexpr std::string_view kNames[] = {
      // In the order of Data.
      "Undefined", "NoneType", "bool",  "int",        "unsigned int of 64 bits",
      "float",     "str",      "list",  "dict",       "builtin_function_or_method",
      "Namespace", "Cycler",   "Macro", "LoopContext"};
  static_assert(std::size(kNames) == std::variant_size_v<Data>);
  return sequence() != nullptr ? sequence()->type_name() : kNames[data_.index()];
}

bool Value::is_same(const Value& other) const {
  return std::visit(
      []<typename A, typename B>(const A& a, const B& b) {
        if constexpr (!std::is_same_v<A, B>) {
          return false;
        } else if constexpr (std::is_same_v<A, Undefined> || std::is_same_v<A, None>) {
          return true;
        } else {
          return a == b;
        }
      },
      data_, other.data_);
}

absl::Status Value::undefined_error() const {
  const auto& message = get_if<Undefined>()->message;
  return absl::InvalidArgumentError(message == nullptr ? "a value is undefined" : *message);
}

}  // namespace lockstep::jinja

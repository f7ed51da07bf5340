// SPDX-License-Identifier: Apache-2.0
#include "coordinator/text/jinja/value.h"

#include <algorithm>
#include <cmath>

#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"
#include "coordinator/text/jinja/operators.h"

namespace lockstep::jinja {
size_t KeyHash::operator()(std::string_view key) const {
  return absl::HashOf(absl::string_view(key.data(), key.size()));
}

size_t KeyHash::operator()(const Value& key) const {
  if (const Text* text = key.text()) return (*this)(std::string_view(text->bytes()));
  if (key.is_integer()) return absl::HashOf(key.integer());
  if (const double* number = key.get_if<double>()) {
    const bool is_whole = *number == std::floor(*number) && std::fabs(*number) < 0x1p62;
    return is_whole ? absl::HashOf(static_cast<int64_t>(*number)) : absl::HashOf(*number);
  }
  size_t hash = 0;
  if (const Sequence* sequence = key.sequence()) {
    for (const Value& item : sequence->items) hash = absl::HashOf(hash, (*this)(item));
  }
  return hash;
}

bool KeyEqual::operator()(const Value& a, const Value& b) const {
  Budget unlimited({.steps = INT64_MAX >> 13});
  return equal(&unlimited, a, b);
}

bool KeyEqual::operator()(const Value& a, std::string_view b) const {
  return a.text() != nullptr && a.text()->bytes() == b;
}

bool is_hashable(Budget* budget, const Value& key) {
  constexpr size_t kMaxItems = 16;
  if (key.text() != nullptr) budget->copy(key.text()->bytes().size());
  if (key.dict() != nullptr) return false;
  const Sequence* sequence = key.sequence();
  if (sequence == nullptr) return true;
  return sequence->type == Sequence::Type::kTuple && sequence->items.size() <= kMaxItems &&
         std::ranges::all_of(sequence->items, [budget](const Value& item) {
           return item.sequence() == nullptr && is_hashable(budget, item);
         });
}

void Dict::set(Value key, Value value) {
  const auto [place, fresh] = index_.try_emplace(key, entries.size());
  if (fresh) {
    entries.emplace_back(std::move(key), std::move(value));
  } else {
    entries[place->second].second = std::move(value);
  }
}

std::string_view type_name(const Sequence& sequence) {
  switch (sequence.type) {
    case Sequence::Type::kList:
      return "list";
    case Sequence::Type::kTuple:
      return "tuple";
    case Sequence::Type::kRange:
      return "range";
    case Sequence::Type::kKeys:
      return "dict_keys";
    case Sequence::Type::kValues:
      return "dict_values";
    case Sequence::Type::kItems:
      return "dict_items";
    case Sequence::Type::kIterator:
      return "generator";
  }
  return "";
}

std::string_view type_name(const Value& value) {
  if (value.is_undefined()) return "Undefined";
  if (value.is_none()) return "NoneType";
  if (value.is<bool>()) return "bool";
  if (value.is<int64_t>()) return "int";
  if (value.is<Unsigned>()) return "int of 64 bits without a sign";
  if (value.is<double>()) return "float";
  if (value.is<TextRef>()) return "str";
  if (value.is<DictRef>()) return "dict";
  if (value.is<Namespace*>()) return "Namespace";
  if (value.is<Cycler*>()) return "Cycler";
  if (value.is<const Macro*>()) return "Macro";
  if (value.is<Loop*>()) return "LoopContext";
  if (const Sequence* sequence = value.sequence()) return type_name(*sequence);
  return "builtin_function_or_method";
}

}  // namespace lockstep::jinja

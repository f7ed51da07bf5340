// SPDX-License-Identifier: Apache-2.0
// Python 3's rules, except that integers have 64 bits: an overflow is an error.
#include "coordinator/text/jinja/values/operators.h"

#include <algorithm>
#include <cmath>
#include <compare>

#include "coordinator/text/jinja/strings/transforms.h"
#include "coordinator/text/jinja/values/format.h"
#include "coordinator/text/text_search.h"

namespace lockstep::jinja {
namespace {

constexpr std::string_view kSymbols[] = {
    "+", "-", "*", "/", "//", "%", "** or pow()", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};

std::string_view symbol(Operator op) { return kSymbols[static_cast<size_t>(op)]; }

std::partial_ordering order_of_numbers(const Value& a, const Value& b) {
  // A long double holds every 64-bit integer and every double.
  const auto exact = [](const Value& value) {
    return value.is<double>() ? static_cast<long double>(value.number())
                              : static_cast<long double>(value.integer());
  };
  return exact(a) <=> exact(b);
}

bool equal_sequences(Budget& budget, const Sequence& a, const Sequence& b) {
  if (&a == &b) return true;
  if (a.type != b.type || a.type == Sequence::Type::kIterator) return false;
  budget.spend(static_cast<int64_t>(std::min(a.items.size(), b.items.size())));
  return a.items.size() == b.items.size() &&
         std::ranges::equal(a.items, b.items, [&](const Value& x, const Value& y) {
           return budget.ok() && equal(budget, x, y);
         });
}

bool equal_dicts(Budget& budget, const Dict& a, const Dict& b) {
  if (&a == &b) return true;
  budget.spend(static_cast<int64_t>(a.entries.size()));
  if (a.entries.size() != b.entries.size()) return false;
  return std::ranges::all_of(a.entries, [&](const auto& entry) {
    const Value* other = b.find(entry.first);
    return budget.ok() && other != nullptr && equal(budget, entry.second, *other);
  });
}

// Whether both are lists, or both tuples.
bool are_alike(const Sequence* a, const Sequence* b) {
  return a != nullptr && b != nullptr && a->type == b->type && a->is_list_or_tuple();
}

std::partial_ordering order(Budget& budget, Operator op, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return order_of_numbers(a, b);
  if (a.text() != nullptr && b.text() != nullptr) {
    budget.copy(std::min(a.text()->bytes().size(), b.text()->bytes().size()));
    return a.text()->bytes().compare(b.text()->bytes()) <=> 0;
  }
  const Sequence* x = a.sequence();
  const Sequence* y = b.sequence();
  if (are_alike(x, y)) {
    const size_t common = std::min(x->items.size(), y->items.size());
    for (size_t i = 0; i < common && budget.spend(1); ++i) {
      if (!equal(budget, x->items[i], y->items[i])) {
        return order(budget, op, x->items[i], y->items[i]);
      }
    }
    return x->items.size() <=> y->items.size();
  }
  wrong_type(budget, a.is_undefined() ? a : b,
             "'{}' not supported between instances of '{}' and '{}'", symbol(op), a.type_name(),
             b.type_name());
  return std::partial_ordering::unordered;
}

bool contains(Budget& budget, const Value& container, const Value& item) {
  if (const Text* text = container.text()) {
    if (item.text() == nullptr) {
      return wrong_type(budget, item, "'in <string>' requires string as left operand, not {}",
                        item.type_name());
    }
    budget.scan(text->bytes().size());
    return find_text(text->bytes(), item.text()->bytes()) != std::string_view::npos;
  }
  if (const Dict* dict = container.dict()) {
    return check_hashable(budget, item) && dict->find(item) != nullptr;
  }
  if (const Sequence* sequence = container.sequence()) {
    size_t at = sequence->consumed;
    bool found = false;
    for (; at < sequence->items.size() && !found && budget.spend(1); ++at) {
      found = equal(budget, sequence->items[at], item);
    }
    if (sequence->type == Sequence::Type::kIterator) sequence->consumed = at;
    return found;
  }
  if (container.is_undefined()) return false;
  return budget.refuse("argument of type '{}' is not iterable", container.type_name());
}

Failed too_large(Budget& budget) {
  return budget.refuse("the result needs more than 64 bits, which is not supported");
}

Value integer_power(Budget& budget, int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return budget.refuse("0.0 cannot be raised to a negative power");
    return std::pow(static_cast<double>(base), static_cast<double>(exponent));
  }
  int64_t result = 1;
  while (exponent > 0) {
    if (exponent % 2 == 1 && __builtin_mul_overflow(result, base, &result)) {
      return too_large(budget);
    }
    exponent /= 2;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return too_large(budget);
  }
  return result;
}

Value integer_arithmetic(Budget& budget, Operator op, int64_t a, int64_t b) {
  const bool is_negative_quotient = (a < 0) != (b < 0);
  int64_t result = 0;
  bool overflows = false;
  switch (op) {
    case Operator::kAdd:
      overflows = __builtin_add_overflow(a, b, &result);
      break;
    case Operator::kSubtract:
      overflows = __builtin_sub_overflow(a, b, &result);
      break;
    case Operator::kMultiply:
      overflows = __builtin_mul_overflow(a, b, &result);
      break;
    case Operator::kDivide:
      if (b == 0) return budget.refuse("division by zero");
      return static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b));
    case Operator::kFloorDivide:
    case Operator::kModulo: {
      if (b == 0) return budget.refuse("integer division or modulo by zero");
      const bool divides = op == Operator::kFloorDivide;
      if (b == -1) {  // Only for this divisor the quotient may overflow.
        overflows = divides && __builtin_sub_overflow(0, a, &result);
        break;
      }
      const bool adjusted = a % b != 0 && is_negative_quotient;
      result = divides ? a / b - (adjusted ? 1 : 0) : a % b + (adjusted ? b : 0);
      break;
    }
    default:
      return integer_power(budget, a, b);
  }
  return overflows ? Value(too_large(budget)) : Value(result);
}

double python_modulo(double a, double b) {
  const double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

double floor_divide(double a, double b) {
  const double quotient = (a - python_modulo(a, b)) / b;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

Value float_power(Budget& budget, double a, double b) {
  if (a == 0 && b < 0) return budget.refuse("0.0 cannot be raised to a negative power");
  const bool finite = std::isfinite(a) && std::isfinite(b);
  if (finite && a < 0 && b != std::floor(b)) {
    return budget.refuse("a complex number, which is not supported");
  }
  const double result = std::pow(a, b);
  if (finite && std::isinf(result)) return budget.refuse("the result of ** is too large");
  return result;
}

Value float_arithmetic(Budget& budget, Operator op, double a, double b) {
  switch (op) {
    case Operator::kAdd:
      return a + b;
    case Operator::kSubtract:
      return a - b;
    case Operator::kMultiply:
      return a * b;
    case Operator::kDivide:
      return b == 0 ? Value(budget.refuse("float division by zero")) : Value(a / b);
    case Operator::kFloorDivide:
    case Operator::kModulo:
      if (b == 0) return budget.refuse("float floor division by zero, or modulo");
      return op == Operator::kModulo ? python_modulo(a, b) : floor_divide(a, b);
    default:
      return float_power(budget, a, b);
  }
}

// value * count for a text, list or tuple; undefined for other values.
Value repeat(Runtime& runtime, const Value& value, const Value& count_value) {
  if (!count_value.is_integer()) return {};
  const auto count = static_cast<size_t>(std::max<int64_t>(count_value.integer(), 0));
  if (const Text* text = value.text()) {
    const size_t size = text->bytes().size();
    const auto max = static_cast<size_t>(runtime.budget.limits().text_bytes) + 1;
    if (!runtime.budget.check_text(size == 0 ? 0 : std::min(count, max) * size)) return {};
    // Doubles the text, so that repeating a short text is as fast as a long one.
    MarkedText all;
    MarkedText unit = text->content;
    for (size_t left = size == 0 ? 0 : count; left > 0; left /= 2) {
      if (left % 2 == 1) all.append(unit);
      if (left > 1) unit.append(MarkedText(unit));
    }
    return runtime.text(std::move(all));
  }
  const Sequence* sequence = value.sequence();
  if (sequence == nullptr || !sequence->is_list_or_tuple()) return {};
  const size_t size = sequence->items.size();
  const auto max = static_cast<size_t>(runtime.budget.limits().steps) + 1;
  const size_t made = std::min(count, max) * std::min(size, max);
  if (!runtime.budget.spend(static_cast<int64_t>(made))) return {};
  std::vector<Value> items;
  for (size_t i = 0; i < count && size > 0; ++i) {
    items.insert(items.end(), sequence->items.begin(), sequence->items.end());
  }
  return runtime.sequence(sequence->type, std::move(items));
}

// a + b for texts, lists and tuples; undefined for other values.
Value concatenate(Runtime& runtime, const Value& a, const Value& b) {
  if (a.text() != nullptr && b.text() != nullptr) {
    const size_t size = a.text()->bytes().size() + b.text()->bytes().size();
    if (!runtime.budget.check_text(size)) return {};
    MarkedText both = a.text()->content;
    both.append(b.text()->content);
    return runtime.text(std::move(both));
  }
  const Sequence* x = a.sequence();
  const Sequence* y = b.sequence();
  if (are_alike(x, y)) {
    std::vector<Value> items = x->items;
    items.insert(items.end(), y->items.begin(), y->items.end());
    return runtime.sequence(x->type, std::move(items));
  }
  if (a.text() != nullptr || (x != nullptr && x->is_list_or_tuple())) {
    wrong_type(runtime.budget, b, "can only concatenate {0} (not \"{1}\") to {0}", a.type_name(),
               b.type_name());
  }
  return {};
}

}  // namespace

bool truth(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (value.is_integer()) return value.integer() != 0;
  if (value.is<double>()) return value.number() != 0;
  if (const Text* text = value.text()) return !text->bytes().empty();
  if (const Dict* dict = value.dict()) return !dict->entries.empty();
  const Sequence* sequence = value.sequence();
  return sequence == nullptr || sequence->type == Sequence::Type::kIterator ||
         !sequence->items.empty();
}

bool equal(Budget& budget, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return std::is_eq(order_of_numbers(a, b));
  if (a.text() != nullptr && b.text() != nullptr) {
    if (a.text() == b.text()) return true;
    if (a.text()->bytes().size() != b.text()->bytes().size()) return false;
    budget.copy(a.text()->bytes().size());
    return a.text()->bytes() == b.text()->bytes();
  }
  if (a.sequence() != nullptr && b.sequence() != nullptr) {
    return equal_sequences(budget, *a.sequence(), *b.sequence());
  }
  if (a.dict() != nullptr && b.dict() != nullptr) return equal_dicts(budget, *a.dict(), *b.dict());
  return a.is_same(b);
}

bool less(Budget& budget, const Value& a, const Value& b) {
  return compare(budget, Operator::kLess, a, b);
}

bool compare(Budget& budget, Operator op, const Value& a, const Value& b) {
  switch (op) {
    case Operator::kEqual:
      return equal(budget, a, b);
    case Operator::kNotEqual:
      return !equal(budget, a, b);
    case Operator::kIn:
      return contains(budget, b, a);
    case Operator::kNotIn:
      return !contains(budget, b, a);
    case Operator::kLess:
      return std::is_lt(order(budget, op, a, b));
    case Operator::kLessEqual:
      return std::is_lteq(order(budget, op, a, b));
    case Operator::kGreater:
      return std::is_gt(order(budget, op, a, b));
    default:
      return std::is_gteq(order(budget, op, a, b));
  }
}

Value arithmetic(Runtime& runtime, Operator op, const Value& a, const Value& b) {
  if (op == Operator::kModulo && a.text() != nullptr) return percent_format(runtime, *a.text(), b);
  Budget& budget = runtime.budget;
  if (a.is_integer() && b.is_integer()) {
    return integer_arithmetic(budget, op, a.integer(), b.integer());
  }
  if (a.is_number() && b.is_number()) return float_arithmetic(budget, op, a.number(), b.number());
  Value result;
  if (op == Operator::kAdd) result = concatenate(runtime, a, b);
  if (op == Operator::kMultiply) {
    result = repeat(runtime, a, b);
    if (result.is_undefined()) result = repeat(runtime, b, a);
  }
  if (!result.is_undefined()) return result;
  return wrong_type(budget, a.is_undefined() ? a : b,
                    "unsupported operand type(s) for {}: '{}' and '{}'", symbol(op), a.type_name(),
                    b.type_name());
}

Value negative(Budget& budget, const Value& value) {
  if (value.is_integer())
    return integer_arithmetic(budget, Operator::kSubtract, 0, value.integer());
  if (value.is<double>()) return -value.number();
  return wrong_type(budget, value, "bad operand type for unary -: '{}'", value.type_name());
}

Value positive(Budget& budget, const Value& value) {
  if (value.is_integer()) return value.integer();
  if (value.is<double>()) return value;
  return wrong_type(budget, value, "bad operand type for unary +: '{}'", value.type_name());
}

}  // namespace lockstep::jinja

// SPDX-License-Identifier: Apache-2.0
// As Python 3 has them, but that integers have 64 bits: what does not fit is an error.
#include "coordinator/text/jinja/operators.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <cstring>

#include "coordinator/text/jinja/access.h"
#include "coordinator/text/jinja/format.h"
#include "coordinator/text/jinja/show.h"

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

bool equal_items(Budget* budget, const std::vector<Value>& a, const std::vector<Value>& b) {
  budget->spend(static_cast<int64_t>(std::min(a.size(), b.size())));
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [&](const Value& x, const Value& y) {
           return budget->ok() && equal(budget, x, y);
         });
}

bool equal_dicts(Budget* budget, const Dict& a, const Dict& b) {
  budget->spend(static_cast<int64_t>(a.entries.size()));
  if (a.entries.size() != b.entries.size()) return false;
  return std::ranges::all_of(a.entries, [&](const auto& entry) {
    const Value* other = b.find(entry.first);
    return budget->ok() && other != nullptr && equal(budget, entry.second, *other);
  });
}

bool equal_sequences(Budget* budget, const Sequence& a, const Sequence& b) {
  if (&a == &b) return true;
  return a.type == b.type && a.type != Sequence::Type::kIterator &&
         equal_items(budget, a.items, b.items);
}

absl::StatusOr<std::partial_ordering> order(Budget* budget, Operator op, const Value& a,
                                            const Value& b) {
  if (a.is_number() && b.is_number()) return order_of_numbers(a, b);
  if (a.is_undefined()) return undefined_error(a);
  if (b.is_undefined()) return undefined_error(b);
  if (a.text() != nullptr && b.text() != nullptr) {
    budget->copy(std::min(a.text()->bytes().size(), b.text()->bytes().size()));
    return a.text()->bytes().compare(b.text()->bytes()) <=> 0;
  }
  const Sequence* x = a.sequence();
  const Sequence* y = b.sequence();
  if (x != nullptr && y != nullptr && x->type == y->type && x->type <= Sequence::Type::kTuple) {
    const size_t common = std::min(x->items.size(), y->items.size());
    for (size_t i = 0; i < common; ++i) {
      RETURN_IF_ERROR(budget->status());
      budget->spend(1);
      if (!equal(budget, x->items[i], y->items[i])) {
        return order(budget, op, x->items[i], y->items[i]);
      }
    }
    return x->items.size() <=> y->items.size();
  }
  return invalid_argument("'{}' not supported between instances of '{}' and '{}'", symbol(op),
                          type_name(a), type_name(b));
}

absl::Status too_large() {
  return invalid_argument("the result is no integer of 64 bits: larger ones are not supported");
}

absl::Status division_by_zero() { return invalid_argument("division by zero"); }

Result integer_power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return invalid_argument("0.0 cannot be raised to a negative power");
    return std::pow(static_cast<double>(base), static_cast<double>(exponent));
  }
  int64_t result = 1;
  while (exponent > 0) {
    if (exponent % 2 == 1 && __builtin_mul_overflow(result, base, &result)) return too_large();
    exponent /= 2;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return too_large();
  }
  return result;
}

Result integer_arithmetic(Operator op, int64_t a, int64_t b) {
  int64_t result = 0;
  const bool divides = op >= Operator::kDivide && op <= Operator::kModulo;
  if (divides && b == 0) {
    if (op == Operator::kDivide) return division_by_zero();
    return invalid_argument("integer division or modulo by zero");
  }
  if (op != Operator::kDivide && divides && a == INT64_MIN && b == -1) {
    return op == Operator::kModulo ? Result(int64_t{0}) : Result(too_large());
  }
  switch (op) {
    case Operator::kAdd:
      return __builtin_add_overflow(a, b, &result) ? Result(too_large()) : Result(result);
    case Operator::kSubtract:
      return __builtin_sub_overflow(a, b, &result) ? Result(too_large()) : Result(result);
    case Operator::kMultiply:
      return __builtin_mul_overflow(a, b, &result) ? Result(too_large()) : Result(result);
    case Operator::kDivide:
      return static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b));
    case Operator::kFloorDivide:
      return a / b - (a % b != 0 && (a % b < 0) != (b < 0) ? 1 : 0);
    case Operator::kModulo:
      return a % b + (a % b != 0 && (a % b < 0) != (b < 0) ? b : 0);
    default:
      return integer_power(a, b);
  }
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

Result float_arithmetic(Operator op, double a, double b) {
  if (op >= Operator::kDivide && op <= Operator::kModulo && b == 0) {
    if (op == Operator::kDivide) return invalid_argument("float division by zero");
    return invalid_argument("float floor division by zero, or modulo");
  }
  switch (op) {
    case Operator::kAdd:
      return a + b;
    case Operator::kSubtract:
      return a - b;
    case Operator::kMultiply:
      return a * b;
    case Operator::kDivide:
      return a / b;
    case Operator::kFloorDivide:
      return floor_divide(a, b);
    case Operator::kModulo:
      return python_modulo(a, b);
    default:
      break;
  }
  if (a == 0 && b < 0) return invalid_argument("0.0 cannot be raised to a negative power");
  if (a < 0 && b != std::floor(b) && std::isfinite(a) && std::isfinite(b)) {
    return invalid_argument("a complex number, which is not supported");
  }
  const double result = std::pow(a, b);
  if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) {
    return invalid_argument("the result of ** is too large");
  }
  return result;
}

// value * count for a text, list or tuple; undefined where that is not what it is.
Result repeat(Runtime& runtime, const Value& value, const Value& count_value) {
  if (!count_value.is_integer()) return Value();
  const auto count = static_cast<size_t>(std::max<int64_t>(count_value.integer(), 0));
  if (const Text* text = value.text()) {
    const size_t size = text->bytes().size();
    const auto most = static_cast<size_t>(runtime.budget.limits().text_bytes) + 1;
    RETURN_IF_ERROR(runtime.budget.check_text(size == 0 ? 0 : std::min(count, most) * size));
    // By doubling, so that a short text takes no longer than a long one.
    MarkedText all;
    MarkedText unit = text->content;
    for (size_t left = size == 0 ? 0 : count; left > 0; left /= 2) {
      if (left % 2 == 1) all.append(unit);
      if (left > 1) unit.append(MarkedText(unit));
    }
    return runtime.text(std::move(all));
  }
  const Sequence* sequence = value.sequence();
  if (sequence == nullptr || sequence->type > Sequence::Type::kTuple) return Value();
  const size_t size = sequence->items.size();
  const auto most = static_cast<size_t>(runtime.budget.limits().steps) + 1;
  runtime.budget.spend(static_cast<int64_t>(std::min(count, most) * std::min(size, most)));
  RETURN_IF_ERROR(runtime.budget.status());
  std::vector<Value> items;
  for (size_t i = 0; i < count && size > 0; ++i) {
    items.insert(items.end(), sequence->items.begin(), sequence->items.end());
  }
  return runtime.sequence(sequence->type, std::move(items));
}

// a + b for texts, lists and tuples; undefined where that is not what they are.
Result concatenate(Runtime& runtime, const Value& a, const Value& b) {
  if (a.text() != nullptr && b.text() != nullptr) {
    RETURN_IF_ERROR(runtime.budget.check_text(a.text()->bytes().size() + b.text()->bytes().size()));
    MarkedText both = a.text()->content;
    both.append(b.text()->content);
    return runtime.text(std::move(both));
  }
  const Sequence* x = a.sequence();
  const Sequence* y = b.sequence();
  if (x != nullptr && y != nullptr && x->type == y->type && x->type <= Sequence::Type::kTuple) {
    std::vector<Value> items = x->items;
    items.insert(items.end(), y->items.begin(), y->items.end());
    return runtime.sequence(x->type, std::move(items));
  }
  const bool is_sequence = x != nullptr && x->type <= Sequence::Type::kTuple;
  if ((a.text() != nullptr || is_sequence) && !b.is_undefined()) {
    const std::string_view wanted = type_name(a);
    return invalid_argument("can only concatenate {} (not \"{}\") to {}", wanted, type_name(b),
                            wanted);
  }
  return Value();
}

}  // namespace

absl::Status undefined_error(const Value& value) {
  const auto& message = value.get_if<Undefined>()->message;
  return absl::InvalidArgumentError(message == nullptr ? "a value is undefined" : *message);
}

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

bool equal(Budget* budget, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return std::is_eq(order_of_numbers(a, b));
  if (a.text() != nullptr && b.text() != nullptr) {
    if (a.text() == b.text()) return true;
    if (a.text()->bytes().size() != b.text()->bytes().size()) return false;
    budget->copy(a.text()->bytes().size());
    return a.text()->bytes() == b.text()->bytes();
  }
  if (a.sequence() != nullptr && b.sequence() != nullptr) {
    return equal_sequences(budget, *a.sequence(), *b.sequence());
  }
  if (a.dict() != nullptr && b.dict() != nullptr) {
    return a.dict() == b.dict() || equal_dicts(budget, *a.dict(), *b.dict());
  }
  if (a.is_undefined() || a.is_none()) {
    return a.is_undefined() ? b.is_undefined() : b.is_none();
  }
  const auto same = [&]<typename T>(const T* pointer) {
    const T* other = b.get_if<T>();
    return pointer != nullptr && other != nullptr && *pointer == *other;
  };
  return same(a.get_if<Namespace*>()) || same(a.get_if<Cycler*>()) ||
         same(a.get_if<const Macro*>()) || same(a.get_if<Loop*>()) ||
         same(a.get_if<FunctionRef>()) || same(a.get_if<Unsigned>());
}

absl::StatusOr<bool> less(Budget* budget, const Value& a, const Value& b) {
  return compare(budget, Operator::kLess, a, b);
}

absl::StatusOr<bool> compare(Budget* budget, Operator op, const Value& a, const Value& b) {
  if (op == Operator::kEqual) return equal(budget, a, b);
  if (op == Operator::kNotEqual) return !equal(budget, a, b);
  if (op == Operator::kIn || op == Operator::kNotIn) {
    ASSIGN_OR_RETURN(const bool is_in, contains(budget, b, a));
    return is_in == (op == Operator::kIn);
  }
  ASSIGN_OR_RETURN(const std::partial_ordering ordering, order(budget, op, a, b));
  switch (op) {
    case Operator::kLess:
      return std::is_lt(ordering);
    case Operator::kLessEqual:
      return std::is_lteq(ordering);
    case Operator::kGreater:
      return std::is_gt(ordering);
    default:
      return std::is_gteq(ordering);
  }
}

absl::StatusOr<bool> contains(Budget* budget, const Value& container, const Value& item) {
  if (const Text* text = container.text()) {
    if (item.is_undefined()) return undefined_error(item);
    if (item.text() == nullptr) {
      return invalid_argument("'in <string>' requires string as left operand, not {}",
                              type_name(item));
    }
    budget->scan(text->bytes().size());
    return memmem(text->bytes().data(), text->bytes().size(), item.text()->bytes().data(),
                  item.text()->bytes().size()) != nullptr;
  }
  if (const Dict* dict = container.dict()) {
    if (!is_hashable(budget, item))
      return invalid_argument("unhashable type: '{}'", type_name(item));
    return dict->find(item) != nullptr;
  }
  if (const Sequence* sequence = container.sequence()) {
    size_t at = sequence->consumed;
    bool found = false;
    for (; at < sequence->items.size() && !found; ++at) {
      RETURN_IF_ERROR(budget->status());
      budget->spend(1);
      found = equal(budget, sequence->items[at], item);
    }
    if (sequence->type == Sequence::Type::kIterator) sequence->consumed = at;
    return found;
  }
  if (container.is_undefined()) return false;
  return invalid_argument("argument of type '{}' is not iterable", type_name(container));
}

Result arithmetic(Runtime& runtime, Operator op, const Value& a, const Value& b) {
  if (op == Operator::kModulo && a.text() != nullptr) return percent_format(runtime, *a.text(), b);
  if (a.is_integer() && b.is_integer()) return integer_arithmetic(op, a.integer(), b.integer());
  if (a.is_number() && b.is_number()) return float_arithmetic(op, a.number(), b.number());
  if (op == Operator::kAdd) {
    ASSIGN_OR_RETURN(Value sum, concatenate(runtime, a, b));
    if (!sum.is_undefined()) return sum;
  }
  if (op == Operator::kMultiply) {
    ASSIGN_OR_RETURN(Value product, repeat(runtime, a, b));
    if (product.is_undefined()) {
      ASSIGN_OR_RETURN(product, repeat(runtime, b, a));
    }
    if (!product.is_undefined()) return product;
  }
  if (a.is_undefined()) return undefined_error(a);
  if (b.is_undefined()) return undefined_error(b);
  return invalid_argument("unsupported operand type(s) for {}: '{}' and '{}'", symbol(op),
                          type_name(a), type_name(b));
}

Result negative(const Value& value) {
  if (value.is_integer()) {
    return value.integer() == INT64_MIN ? Result(too_large()) : Result(-value.integer());
  }
  if (value.is<double>()) return -value.number();
  if (value.is_undefined()) return undefined_error(value);
  return invalid_argument("bad operand type for unary -: '{}'", type_name(value));
}

Result positive(const Value& value) {
  if (value.is_integer()) return value.integer();
  if (value.is<double>()) return value;
  if (value.is_undefined()) return undefined_error(value);
  return invalid_argument("bad operand type for unary +: '{}'", type_name(value));
}

}  // namespace lockstep::jinja

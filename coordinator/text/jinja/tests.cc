// SPDX-License-Identifier: Apache-2.0
// Jinja's tests: what follows "is".
#include "coordinator/text/jinja/access.h"
#include "coordinator/text/jinja/builtin.h"
#include "coordinator/text/jinja/operators.h"

namespace lockstep::jinja {
namespace {

Result is_defined(Call& call) { return !call.self.is_undefined(); }
Result is_undefined(Call& call) { return call.self.is_undefined(); }
Result is_none(Call& call) { return call.self.is_none(); }
Result is_boolean(Call& call) { return call.self.is<bool>(); }
Result is_true(Call& call) { return call.self.is<bool>() && truth(call.self); }
Result is_false(Call& call) { return call.self.is<bool>() && !truth(call.self); }
Result is_integer(Call& call) { return call.self.is<int64_t>() || call.self.is<Unsigned>(); }
Result is_float(Call& call) { return call.self.is<double>(); }
Result is_number(Call& call) { return call.self.is_number() || call.self.is<Unsigned>(); }
Result is_string(Call& call) { return call.self.text() != nullptr; }
Result is_mapping(Call& call) { return call.self.dict() != nullptr; }
Result is_escaped(Call&) { return false; }

Result is_iterable(Call& call) {
  return call.self.text() != nullptr || call.self.dict() != nullptr ||
         call.self.sequence() != nullptr || call.self.is_undefined() || call.self.is<Loop*>();
}

// What has a length and items. The undefined value says of itself that it has.
Result is_sequence(Call& call) {
  const Sequence* sequence = call.self.sequence();
  return call.self.text() != nullptr || call.self.dict() != nullptr || call.self.is_undefined() ||
         (sequence != nullptr && sequence->is_indexed());
}

Result is_callable(Call& call) {
  return call.self.is<FunctionRef>() || call.self.is<const Macro*>() || call.self.is<Loop*>() ||
         call.self.is_undefined();
}

Result is_sameas(Call& call) {
  const Value& other = call[0];
  if (call.self.sequence() != nullptr) return call.self.sequence() == other.sequence();
  if (call.self.dict() != nullptr) return call.self.dict() == other.dict();
  return type_name(call.self) == type_name(other) && equal(&call.budget(), call.self, other);
}

// value % by == rest
Result has_rest(Call& call, const Value& by, int64_t rest) {
  ASSIGN_OR_RETURN(const Value value, arithmetic(call.runtime, Operator::kModulo, call.self, by));
  return equal(&call.budget(), value, rest);
}
Result is_odd(Call& call) { return has_rest(call, int64_t{2}, 1); }
Result is_even(Call& call) { return has_rest(call, int64_t{2}, 0); }
Result is_divisible(Call& call) { return has_rest(call, call[0], 0); }

Result has_case(Call& call, std::string_view method) {
  ASSIGN_OR_RETURN(MarkedText text, call.self_str());
  const Value value = call.runtime.text(std::move(text));
  return run_builtin(call.runtime, *find_builtin(text_tests(), method), value, {});
}
Result is_lower(Call& call) { return has_case(call, "islower"); }
Result is_upper(Call& call) { return has_case(call, "isupper"); }

template <const Builtin* (*kFind)(std::string_view)>
Result is_name_of(Call& call) {
  if (!is_hashable(&call.budget(), call.self)) {
    return invalid_argument("unhashable type: '{}'", type_name(call.self));
  }
  return call.self.text() != nullptr && kFind(call.self.text()->bytes()) != nullptr;
}

template <Operator kOperator>
Result compares(Call& call) {
  ASSIGN_OR_RETURN(const bool holds, compare(&call.budget(), kOperator, call.self, call[0]));
  return holds;
}

constexpr Builtin kTests[] = {
    {"boolean", "", is_boolean},
    {"callable", "", is_callable},
    {"defined", "", is_defined},
    {"divisibleby", "num", is_divisible},
    {"eq", "other", compares<Operator::kEqual>},
    {"equalto", "other", compares<Operator::kEqual>},
    {"==", "other", compares<Operator::kEqual>},
    {"escaped", "", is_escaped},
    {"even", "", is_even},
    {"false", "", is_false},
    {"filter", "", is_name_of<find_filter>},
    {"float", "", is_float},
    {"ge", "other", compares<Operator::kGreaterEqual>},
    {">=", "other", compares<Operator::kGreaterEqual>},
    {"gt", "other", compares<Operator::kGreater>},
    {"greaterthan", "other", compares<Operator::kGreater>},
    {">", "other", compares<Operator::kGreater>},
    {"in", "seq", compares<Operator::kIn>},
    {"integer", "", is_integer},
    {"iterable", "", is_iterable},
    {"le", "other", compares<Operator::kLessEqual>},
    {"<=", "other", compares<Operator::kLessEqual>},
    {"lessthan", "other", compares<Operator::kLess>},
    {"lower", "", is_lower},
    {"lt", "other", compares<Operator::kLess>},
    {"<", "other", compares<Operator::kLess>},
    {"mapping", "", is_mapping},
    {"ne", "other", compares<Operator::kNotEqual>},
    {"!=", "other", compares<Operator::kNotEqual>},
    {"none", "", is_none},
    {"number", "", is_number},
    {"odd", "", is_odd},
    {"sameas", "other", is_sameas},
    {"sequence", "", is_sequence},
    {"string", "", is_string},
    {"test", "", is_name_of<find_test>},
    {"true", "", is_true},
    {"undefined", "", is_undefined},
    {"upper", "", is_upper},
};

}  // namespace

const Builtin* find_test(std::string_view name) { return find_builtin(kTests, name); }

}  // namespace lockstep::jinja

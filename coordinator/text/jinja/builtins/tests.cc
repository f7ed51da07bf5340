// SPDX-License-Identifier: Apache-2.0
// Jinja's tests, which follow "is".
#include "coordinator/text/jinja/values/builtin.h"
#include "coordinator/text/jinja/values/operators.h"

namespace lockstep::jinja {
namespace {

bool is_indexed(const Value& value) {
  return value.sequence() != nullptr && value.sequence()->is_indexed();
}

Value is_sameas(Call& call) {
  const Value& other = call[0];
  if (call.self.sequence() != nullptr) return call.self.sequence() == other.sequence();
  if (call.self.dict() != nullptr) return call.self.dict() == other.dict();
  return call.self.type_name() == other.type_name() && equal(call.budget, call.self, other);
}

// value % by == rest
Value has_rest(Call& call, const Value& by, int64_t rest) {
  return equal(call.budget, arithmetic(call.runtime, Operator::kModulo, call.self, by), rest);
}

// Calls the method "islower" or "isupper" of the value as a text.
Value has_case(Call& call) {
  const Value text = call.runtime.text(call.str(call.self));
  const std::string method = fmt::format("is{}", call.builtin.name);
  return run_builtin(call.runtime, *find_builtin(text_methods(), method), text, {});
}

template <const Builtin* (*kFind)(std::string_view)>
Value is_name_of(Call& call) {
  return check_hashable(call.budget, call.self) && call.self.text() != nullptr &&
         kFind(call.self.text()->bytes()) != nullptr;
}

template <Operator kOperator>
Value compares(Call& call) {
  return compare(call.budget, kOperator, call.self, call[0]);
}

constexpr Builtin kTests[] = {
    {"boolean", "", [](Call& c) { return Value(c.self.is<bool>()); }},
    {"callable", "",
     [](Call& c) {
       return Value(c.self.is<FunctionRef>() || c.self.is<const Macro*>() || c.self.is<Loop*>() ||
                    c.self.is_undefined());
     }},
    {"defined", "", [](Call& c) { return Value(!c.self.is_undefined()); }},
    {"divisibleby", "num", [](Call& c) { return has_rest(c, c[0], 0); }},
    {"eq", "other", compares<Operator::kEqual>},
    {"equalto", "other", compares<Operator::kEqual>},
    {"==", "other", compares<Operator::kEqual>},
    {"escaped", "", [](Call&) { return Value(false); }},
    {"even", "", [](Call& c) { return has_rest(c, int64_t{2}, 0); }},
    {"false", "", [](Call& c) { return Value(c.self.is<bool>() && !truth(c.self)); }},
    {"filter", "", is_name_of<find_filter>},
    {"float", "", [](Call& c) { return Value(c.self.is<double>()); }},
    {"ge", "other", compares<Operator::kGreaterEqual>},
    {">=", "other", compares<Operator::kGreaterEqual>},
    {"gt", "other", compares<Operator::kGreater>},
    {"greaterthan", "other", compares<Operator::kGreater>},
    {">", "other", compares<Operator::kGreater>},
    {"in", "seq", compares<Operator::kIn>},
    {"integer", "", [](Call& c) { return Value(c.self.is<int64_t>() || c.self.is<Unsigned>()); }},
    {"iterable", "",
     [](Call& c) {
       return Value(c.self.text() != nullptr || c.self.dict() != nullptr ||
                    c.self.sequence() != nullptr || c.self.is_undefined() || c.self.is<Loop*>());
     }},
    {"le", "other", compares<Operator::kLessEqual>},
    {"<=", "other", compares<Operator::kLessEqual>},
    {"lessthan", "other", compares<Operator::kLess>},
    {"lower", "", has_case},
    {"lt", "other", compares<Operator::kLess>},
    {"<", "other", compares<Operator::kLess>},
    {"mapping", "", [](Call& c) { return Value(c.self.dict() != nullptr); }},
    {"ne", "other", compares<Operator::kNotEqual>},
    {"!=", "other", compares<Operator::kNotEqual>},
    {"none", "", [](Call& c) { return Value(c.self.is_none()); }},
    {"number", "", [](Call& c) { return Value(c.self.is_number() || c.self.is<Unsigned>()); }},
    {"odd", "", [](Call& c) { return has_rest(c, int64_t{2}, 1); }},
    {"sameas", "other", is_sameas},
    // An undefined value claims to have a length and items.
    {"sequence", "",
     [](Call& c) {
       return Value(c.self.text() != nullptr || c.self.dict() != nullptr || c.self.is_undefined() ||
                    is_indexed(c.self));
     }},
    {"string", "", [](Call& c) { return Value(c.self.text() != nullptr); }},
    {"test", "", is_name_of<find_test>},
    {"true", "", [](Call& c) { return Value(c.self.is<bool>() && truth(c.self)); }},
    {"undefined", "", [](Call& c) { return Value(c.self.is_undefined()); }},
    {"upper", "", has_case},
};

}  // namespace

const Builtin* find_test(std::string_view name) { return find_builtin(kTests, name); }

}  // namespace lockstep::jinja

// SPDX-License-Identifier: Apache-2.0
// The methods and attributes of all values except texts.
#include <bit>
#include <cmath>

#include "coordinator/text/jinja/values/builtin.h"
#include "coordinator/text/jinja/values/operators.h"

namespace lockstep::jinja {
namespace {

Value get(Call& call) {
  if (!check_hashable(call.budget, call[0])) return {};
  if (const Value* found = call.self.dict()->find(call[0])) return *found;
  return call.value_or(1, None{});
}

template <Sequence::Type kType>
Value view(Call& call) {
  std::vector<Value> items;
  for (const auto& [key, value] : call.self.dict()->entries) {
    if (kType != Sequence::Type::kItems) {
      items.push_back(kType == Sequence::Type::kKeys ? key : value);
    } else if (call.budget.spend(1)) {
      items.push_back(call.runtime.tuple({key, value}));
    }
  }
  return call.runtime.sequence(kType, std::move(items));
}

Value itself(Call& call) { return call.self; }

Value count(Call& call) {
  int64_t found = 0;
  for (const Value& item : call.self.sequence()->items) {
    if (call.budget.spend(1) && equal(call.budget, item, call[0])) ++found;
  }
  return found;
}

Value index(Call& call) {
  const auto& items = call.self.sequence()->items;
  const auto size = static_cast<int64_t>(items.size());
  int64_t begin = call.integer_or(1, 0);
  int64_t end = call.integer_or(2, size);
  if (begin < 0) begin = std::max<int64_t>(begin + size, 0);
  if (end < 0) end += size;
  for (int64_t i = begin; i < std::min(end, size) && call.budget.spend(1); ++i) {
    if (equal(call.budget, items[static_cast<size_t>(i)], call[0])) return i;
  }
  return call.budget.refuse("the item is not in the {}", call.self.type_name());
}

template <typename F>
Value of_bits(Call& call, F&& count) {
  const auto bits = static_cast<uint64_t>(call.self.integer());
  return static_cast<int64_t>(count(call.self.integer() < 0 ? -bits : bits));
}

// Python's attribute `real` of a number; True is 1.
Value real(Call& call) { return positive(call.budget, call.self); }

Cycler& own_cycler(Call& call) { return **call.self.get_if<Cycler*>(); }
Loop& own_loop(Call& call) { return **call.self.get_if<Loop*>(); }
const MacroSyntax& own_macro(Call& call) { return *(*call.self.get_if<const Macro*>())->syntax; }

Value next(Call& call) {
  Cycler& cycler = own_cycler(call);
  return cycler.items[std::exchange(cycler.place, (cycler.place + 1) % cycler.items.size())];
}

Value cycle(Call& call) {
  const auto& values = call.arguments.positional;
  if (values.empty()) return call.budget.refuse("no items for cycling given");
  return values[static_cast<size_t>(own_loop(call).index0()) % values.size()];
}

Value neighbour(const std::optional<Value>& item, const char* missing) {
  return item.has_value() ? *item : Value::undefined(missing);
}

Value parameters(Call& call) {
  const std::vector<std::string>& all = own_macro(call).parameters;
  std::vector<Value> names;
  names.reserve(all.size());
  for (const std::string& name : all) names.push_back(call.runtime.text(name));
  return call.runtime.tuple(std::move(names));
}

constexpr Builtin kDictMembers[] = {
    {"copy", "", itself},
    {"get", "key default?", get},
    {"items", "", view<Sequence::Type::kItems>},
    {"keys", "", view<Sequence::Type::kKeys>},
    {"values", "", view<Sequence::Type::kValues>},
};
constexpr Builtin kSequenceMembers[] = {
    {"count", "value", count},
    {"index", "value start? stop?", index},
    {"copy", "", itself},                                                   // For lists only.
    {"grouper", ".", [](Call& c) { return c.self.sequence()->items[0]; }},  // For groups only.
    {"list", ".", [](Call& c) { return c.self.sequence()->items[1]; }},
};
constexpr Builtin kIntegerMembers[] = {
    {"bit_count", "",
     [](Call& c) { return of_bits(c, [](uint64_t bits) { return std::popcount(bits); }); }},
    {"bit_length", "",
     [](Call& c) { return of_bits(c, [](uint64_t bits) { return std::bit_width(bits); }); }},
    {"conjugate", "", real},
    {"real", ".", real},
    {"numerator", ".", real},
    {"imag", ".", [](Call&) { return Value(int64_t{0}); }},
    {"denominator", ".", [](Call&) { return Value(int64_t{1}); }},
};
constexpr Builtin kFloatMembers[] = {
    {"conjugate", "", real},
    {"is_integer", "",
     [](Call& c) { return Value(c.self.number() == std::floor(c.self.number())); }},
    {"real", ".", real},
    {"imag", ".", [](Call&) { return Value(0.0); }},
};
constexpr Builtin kCyclerMembers[] = {
    {"next", "", next},
    {"reset", "",
     [](Call& c) {
       own_cycler(c).place = 0;
       return Value(None{});
     }},
    {"current", ".", [](Call& c) { return own_cycler(c).items[own_cycler(c).place]; }},
    {"pos", ".", [](Call& c) { return Value(static_cast<int64_t>(own_cycler(c).place)); }},
    {"items", ".", [](Call& c) { return c.runtime.tuple(own_cycler(c).items); }},
};
constexpr Builtin kLoopMembers[] = {
    {"changed", "*",
     [](Call& c) { return Value(own_loop(c).changed(c.budget, c.arguments.positional)); }},
    {"cycle", "*", cycle},
    {"index0", ".", [](Call& c) { return Value(own_loop(c).index0()); }},
    {"index", ".", [](Call& c) { return Value(own_loop(c).index0() + 1); }},
    {"first", ".", [](Call& c) { return Value(own_loop(c).index0() == 0); }},
    {"last", ".", [](Call& c) { return Value(!own_loop(c).after().has_value()); }},
    {"previtem", ".",
     [](Call& c) { return neighbour(own_loop(c).before(), "there is no previous item"); }},
    {"nextitem", ".",
     [](Call& c) { return neighbour(own_loop(c).after(), "there is no next item"); }},
    {"length", ".", [](Call& c) { return Value(own_loop(c).length()); }},
    {"revindex", ".", [](Call& c) { return Value(own_loop(c).length() - own_loop(c).index0()); }},
    {"revindex0", ".",
     [](Call& c) { return Value(own_loop(c).length() - own_loop(c).index0() - 1); }},
    {"depth", ".", [](Call& c) { return Value(int64_t{own_loop(c).depth0} + 1); }},
    {"depth0", ".", [](Call& c) { return Value(int64_t{own_loop(c).depth0}); }},
};
constexpr Builtin kMacroMembers[] = {
    {"name", ".",
     [](Call& c) {
       const std::string& name = own_macro(c).name;
       return name.empty() ? Value(None{}) : c.runtime.text(name);
     }},
    {"arguments", ".", parameters},
    {"catch_kwargs", ".", [](Call& c) { return Value(own_macro(c).uses_kwargs); }},
    {"catch_varargs", ".", [](Call& c) { return Value(own_macro(c).uses_varargs); }},
    {"caller", ".", [](Call& c) { return Value(own_macro(c).uses_caller); }},
};

}  // namespace

const Builtin* find_member(const Value& value, std::string_view name) {
  if (value.text() != nullptr) return find_builtin(text_methods(), name);
  if (value.dict() != nullptr) return find_builtin(kDictMembers, name);
  if (value.is<Loop*>()) return find_builtin(kLoopMembers, name);
  if (value.is<Cycler*>()) return find_builtin(kCyclerMembers, name);
  if (value.is<const Macro*>()) return find_builtin(kMacroMembers, name);
  if (value.is_integer()) return find_builtin(kIntegerMembers, name);
  if (value.is<double>()) return find_builtin(kFloatMembers, name);
  const Sequence* sequence = value.sequence();
  if (sequence == nullptr || !sequence->is_indexed()) return nullptr;
  if (name == "copy" && sequence->type != Sequence::Type::kList) return nullptr;
  if ((name == "grouper" || name == "list") && !sequence->is_group) return nullptr;
  return find_builtin(kSequenceMembers, name);
}

}  // namespace lockstep::jinja

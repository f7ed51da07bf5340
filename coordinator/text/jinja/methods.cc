// SPDX-License-Identifier: Apache-2.0
// The methods of dicts, lists, numbers, cyclers and loops. Those of texts have files of their own.
#include <bit>
#include <cmath>

#include "coordinator/text/jinja/access.h"
#include "coordinator/text/jinja/builtin.h"
#include "coordinator/text/jinja/loop.h"
#include "coordinator/text/jinja/operators.h"

namespace lockstep::jinja {
namespace {

Result get(Call& call) {
  if (!is_hashable(&call.budget(), call[0]))
    return invalid_argument("unhashable type: '{}'", type_name(call[0]));
  if (const Value* found = call.self.dict()->find(call[0])) return *found;
  return call.has(1) ? call[1] : Value(None{});
}

template <Sequence::Type kType>
Result view(Call& call) {
  std::vector<Value> items;
  for (const auto& [key, value] : call.self.dict()->entries) {
    if (kType == Sequence::Type::kItems) {
      call.budget().spend(1);
      RETURN_IF_ERROR(call.budget().status());
      items.push_back(call.runtime.tuple({key, value}));
    } else {
      items.push_back(kType == Sequence::Type::kKeys ? key : value);
    }
  }
  return call.runtime.sequence(kType, std::move(items));
}

Result itself(Call& call) { return call.self; }

Result count(Call& call) {
  int64_t found = 0;
  for (const Value& item : call.self.sequence()->items) {
    call.budget().spend(1);
    RETURN_IF_ERROR(call.budget().status());
    if (equal(&call.budget(), item, call[0])) ++found;
  }
  return found;
}

Result index(Call& call) {
  const auto& items = call.self.sequence()->items;
  const auto size = static_cast<int64_t>(items.size());
  ASSIGN_OR_RETURN(int64_t begin, call.integer_or(1, 0));
  ASSIGN_OR_RETURN(int64_t end, call.integer_or(2, size));
  if (begin < 0) begin = std::max<int64_t>(begin + size, 0);
  if (end < 0) end += size;
  for (int64_t i = begin; i < std::min(end, size); ++i) {
    call.budget().spend(1);
    RETURN_IF_ERROR(call.budget().status());
    if (equal(&call.budget(), items[static_cast<size_t>(i)], call[0])) return i;
  }
  return invalid_argument("the item is not in the {}", type_name(call.self));
}

Result is_whole(Call& call) { return call.self.number() == std::floor(call.self.number()); }

Loop& own_loop(Call& call) { return **call.self.get_if<Loop*>(); }

Result cycle(Call& call) {
  const auto& values = call.arguments.positional;
  if (values.empty()) return invalid_argument("no items for cycling given");
  return values[static_cast<size_t>(own_loop(call).index0()) % values.size()];
}

Result changed(Call& call) {
  ASSIGN_OR_RETURN(const bool has_changed,
                   own_loop(call).changed(&call.budget(), call.arguments.positional));
  return has_changed;
}

Result next(Call& call) {
  Cycler& cycler = **call.self.get_if<Cycler*>();
  const size_t place = std::exchange(cycler.place, (cycler.place + 1) % cycler.items.size());
  return cycler.items[place];
}

Result reset(Call& call) {
  (*call.self.get_if<Cycler*>())->place = 0;
  return None{};
}

template <typename F>
Result count_bits(Call& call, F&& count) {
  const int64_t value = call.self.integer();
  const auto bits = static_cast<uint64_t>(value);
  return static_cast<int64_t>(count(value < 0 ? -bits : bits));
}
Result bit_length(Call& call) {
  return count_bits(call, [](uint64_t bits) { return std::bit_width(bits); });
}
Result bit_count(Call& call) {
  return count_bits(call, [](uint64_t bits) { return std::popcount(bits); });
}
Result conjugate(Call& call) { return positive(call.self); }

constexpr Builtin kDictMethods[] = {
    {"copy", "", itself},
    {"get", "key default?", get},
    {"items", "", view<Sequence::Type::kItems>},
    {"keys", "", view<Sequence::Type::kKeys>},
    {"values", "", view<Sequence::Type::kValues>},
};
constexpr Builtin kSequenceMethods[] = {
    {"count", "value", count},
    {"index", "value start? stop?", index},
    {"copy", "", itself},  // Of lists only.
};
constexpr Builtin kIntegerMethods[] = {
    {"bit_count", "", bit_count}, {"bit_length", "", bit_length}, {"conjugate", "", conjugate}};
constexpr Builtin kFloatMethods[] = {{"conjugate", "", conjugate}, {"is_integer", "", is_whole}};
constexpr Builtin kCyclerMethods[] = {{"next", "", next}, {"reset", "", reset}};
constexpr Builtin kLoopMethods[] = {{"changed", "*", changed}, {"cycle", "*", cycle}};

}  // namespace

const Builtin* find_method(const Value& value, std::string_view name) {
  if (value.text() != nullptr) {
    const Builtin* method = find_builtin(text_methods(), name);
    return method != nullptr ? method : find_builtin(text_tests(), name);
  }
  if (value.dict() != nullptr) return find_builtin(kDictMethods, name);
  if (value.is<Loop*>()) return find_builtin(kLoopMethods, name);
  if (value.is<Cycler*>()) return find_builtin(kCyclerMethods, name);
  if (value.is_integer()) return find_builtin(kIntegerMethods, name);
  if (value.is<double>()) return find_builtin(kFloatMethods, name);
  const Sequence* sequence = value.sequence();
  if (sequence == nullptr || !sequence->is_indexed()) return nullptr;
  if (name == "copy" && sequence->type != Sequence::Type::kList) return nullptr;
  return find_builtin(kSequenceMethods, name);
}

}  // namespace lockstep::jinja

// SPDX-License-Identifier: Apache-2.0
// Filters on iterable values, and on any value. The results of map, select and similar filters can
// be iterated once, like Python's generators.
#include <algorithm>

#include "coordinator/text/jinja/strings/characters.h"
#include "coordinator/text/jinja/values/builtin.h"
#include "coordinator/text/jinja/values/format.h"
#include "coordinator/text/jinja/values/operators.h"

namespace lockstep::jinja {
namespace {

Value length_filter(Call& call) { return length(call.budget, call.self); }

Value list_filter(Call& call) { return call.runtime.list(items_of(call.runtime, call.self)); }

Value default_filter(Call& call) {
  const bool replaced = call.self.is_undefined() || (call.truth_or(1, false) && !truth(call.self));
  if (!replaced) return call.self;
  return call.has(0) ? call[0] : call.runtime.text("");
}

// The first or last item, without iterating over the rest.
template <bool kLast>
Value end_item(Call& call) {
  const Value& self = call.self;
  const Sequence* sequence = self.sequence();
  const bool is_iterator = sequence != nullptr && sequence->type == Sequence::Type::kIterator;
  if (kLast && is_iterator) {
    return call.budget.refuse("'{}' object is not reversible", self.type_name());
  }
  if (sequence != nullptr && sequence->consumed < sequence->items.size()) {
    const Value& found = kLast ? sequence->items.back() : sequence->items[sequence->consumed];
    if (is_iterator) ++sequence->consumed;
    return found;
  }
  if (self.text() != nullptr && self.text()->length > 0) {
    return item(call.runtime, self, int64_t{kLast ? -1 : 0});
  }
  if (self.dict() != nullptr && truth(self)) {
    const auto& entries = self.dict()->entries;
    return (kLast ? entries.back() : entries.front()).first;
  }
  items_of(call.runtime, self);  // Fails if the value is not iterable.
  return Value::undefined(fmt::format("No {} item, sequence was empty.", kLast ? "last" : "first"));
}

Value reverse(Call& call) {
  if (const Text* text = call.self.text()) {
    const std::vector<size_t> offsets = byte_offsets(text->bytes());
    call.budget.scan(text->bytes().size());
    MarkedText made;
    for (size_t i = offsets.size() - 1; i > 0; --i) {
      made.append(text->content, offsets[i - 1], offsets[i]);
    }
    return call.runtime.text(std::move(made));
  }
  const Sequence* sequence = call.self.sequence();
  const bool is_iterator = sequence != nullptr && sequence->type == Sequence::Type::kIterator;
  std::vector<Value> items = items_of(call.runtime, call.self);
  std::ranges::reverse(items);
  return is_iterator ? call.runtime.list(std::move(items))
                     : call.runtime.iterator(std::move(items));
}

Value join_filter(Call& call) {
  const MarkedText separator = call.has(0) ? call.str(call[0]) : MarkedText();
  const AttributePath path(call.runtime, call.given_or_null(1));
  const std::vector<Value> items = items_of(call.runtime, call.self);
  MarkedText made;
  for (size_t i = 0; i < items.size(); ++i) {
    call.budget.spend(1);
    call.budget.copy(separator.bytes.size());
    if (i > 0) made.append(separator);
    append_str(call.runtime, path.get(call.runtime, items[i]), &made);
    if (!call.budget.check_text(made.bytes.size())) return {};
  }
  return call.runtime.text(std::move(made));
}

Value items_filter(Call& call) {
  if (call.self.is_undefined()) return call.runtime.iterator({});
  const Dict* dict = call.self.dict();
  if (dict == nullptr) return call.budget.refuse("Can only get item pairs from a mapping.");
  std::vector<Value> pairs;
  for (const auto& [key, value] : dict->entries) {
    if (call.budget.spend(1)) pairs.push_back(call.runtime.tuple({key, value}));
  }
  return call.runtime.iterator(std::move(pairs));
}

// Reads methods and the members of a namespace, but no items.
Value attr(Call& call) {
  const std::string& name = call.text(0).bytes();
  if (call.self.dict() != nullptr && find_member(call.self, name) == nullptr) {
    return Value::undefined(fmt::format("'dict object' has no attribute '{}'", clipped(name, 80)));
  }
  return call.budget.ok() ? attribute(call.runtime, call.self, name) : Value();
}

// Lists of `linecount` items each. The last one is filled up with `fill_with`, if that is given.
Value batch(Call& call) {
  const int64_t size = call.integer_or(0, 0);
  const std::vector<Value> items = items_of(call.runtime, call.self);
  std::vector<Value> batches;
  std::vector<Value> batch;
  call.budget.spend(static_cast<int64_t>(items.size()));
  for (const Value& item : items) {
    if (static_cast<int64_t>(batch.size()) == size) {
      batches.push_back(call.runtime.list(std::exchange(batch, {})));
    }
    batch.push_back(item);
    if (!call.budget.ok()) return {};
  }
  while (!batch.empty() && call.given(1) && static_cast<int64_t>(batch.size()) < size) {
    if (!call.budget.spend(1)) return {};
    batch.push_back(call[1]);
  }
  if (!batch.empty()) batches.push_back(call.runtime.list(std::move(batch)));
  return call.runtime.iterator(std::move(batches));
}

// The given number of lists, of sizes as equal as possible. If `fill_with` is given, the later
// lists, which are shorter, get it as their last item.
Value slice_filter(Call& call) {
  const int64_t count = call.integer_or(0, 0);
  const std::vector<Value> items = items_of(call.runtime, call.self);
  if (count == 0) return call.budget.refuse("integer division or modulo by zero");
  std::vector<Value> slices;
  const auto size = static_cast<int64_t>(items.size());
  int64_t begin = 0;
  for (int64_t i = 0; i < count && call.budget.spend(1); ++i) {
    const int64_t end = begin + size / count + (i < size % count ? 1 : 0);
    std::vector<Value> part(items.begin() + begin, items.begin() + end);
    if (call.given(1) && i >= size % count) part.push_back(call[1]);
    slices.push_back(call.runtime.list(std::move(part)));
    begin = end;
  }
  return call.runtime.iterator(std::move(slices));
}

// The arguments after the first `count`.
Arguments without_first(const Arguments& arguments, size_t count) {
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin(),
                        rest.positional.begin() + static_cast<ptrdiff_t>(count));
  return rest;
}

// An iterator over the results of `make` for each item, without those that are nullopt. Charges one
// step per item.
template <typename F>
Value each(Call& call, F&& make) {
  const std::vector<Value> items = items_of(call.runtime, call.self);
  call.budget.spend(static_cast<int64_t>(items.size()));
  std::vector<Value> made;
  for (const Value& item : items) {
    if (!call.budget.ok()) return {};
    if (std::optional<Value> value = make(item)) made.push_back(*std::move(value));
  }
  return call.runtime.iterator(std::move(made));
}

// The filter or test of this name. Fails if there is none.
const Builtin* named(Call& call, const Value& name, const Builtin* (*find)(std::string_view),
                     std::string_view kind) {
  const Builtin* found = name.text() == nullptr ? nullptr : find(name.text()->bytes());
  if (found == nullptr) {
    call.budget.refuse("{}: there is no {} of that name", call.builtin.name, kind);
  }
  return found;
}

Value map_attribute(Call& call) {
  const Value* attribute = nullptr;
  const Value* fallback = nullptr;
  const std::string* unexpected = nullptr;
  for (const auto& [name, value] : call.arguments.named) {
    if (name == "attribute") {
      attribute = &value;
    } else if (name == "default") {
      fallback = value.is_none() ? nullptr : &value;
    } else {
      unexpected = &name;
    }
  }
  if (attribute == nullptr) return call.budget.refuse("map requires a filter argument");
  if (unexpected != nullptr) {
    return call.budget.refuse("map: unexpected keyword argument '{}'", *unexpected);
  }
  const AttributePath path(call.runtime, attribute);
  return each(call, [&](const Value& item) {
    return std::optional<Value>(path.get(call.runtime, item, fallback));
  });
}

Value map_filter(Call& call) {
  // Jinja checks the arguments only if there is something to map.
  if (!truth(call.self)) return call.runtime.iterator({});
  if (call.arguments.positional.empty()) return map_attribute(call);
  const Builtin* filter = named(call, call.arguments.positional[0], find_filter, "filter");
  if (filter == nullptr) return {};
  const Arguments rest = without_first(call.arguments, 1);
  return each(call, [&](const Value& item) {
    return std::optional<Value>(run_builtin(call.runtime, *filter, item, rest));
  });
}

// Selects the items for which a test returns kWanted. The test checks the item, or one of its
// attributes (kAttribute); the default test is truth.
template <bool kWanted, bool kAttribute>
Value select(Call& call) {
  if (!truth(call.self)) return call.runtime.iterator({});
  const auto& positional = call.arguments.positional;
  size_t used = kAttribute ? 1 : 0;
  if (positional.size() < used) {
    return call.budget.refuse("Missing parameter for attribute name");
  }
  const AttributePath path(call.runtime, kAttribute ? &positional[0] : nullptr);
  const Builtin* test = nullptr;
  if (positional.size() > used) {
    test = named(call, positional[used++], find_test, "test");
    if (test == nullptr) return {};
  }
  const Arguments rest = without_first(call.arguments, used);
  return each(call, [&](const Value& item) {
    Value value = path.get(call.runtime, item);
    if (test != nullptr) value = run_builtin(call.runtime, *test, value, rest);
    return truth(value) == kWanted ? std::optional<Value>(item) : std::nullopt;
  });
}

constexpr Builtin kFilters[] = {
    {"attr", "name", attr},
    {"batch", "linecount fill_with?", batch},
    {"count", "", length_filter},
    {"d", "default_value? boolean?", default_filter},
    {"default", "default_value? boolean?", default_filter},
    {"first", "", end_item<false>},
    {"items", "", items_filter},
    {"join", "d? attribute?", join_filter},
    {"last", "", end_item<true>},
    {"length", "", length_filter},
    {"list", "", list_filter},
    {"map", "*", map_filter},
    {"reject", "*", select<false, false>},
    {"rejectattr", "*", select<false, true>},
    {"reverse", "", reverse},
    {"select", "*", select<true, false>},
    {"selectattr", "*", select<true, true>},
    {"slice", "slices fill_with?", slice_filter},
};

}  // namespace

std::span<const Builtin> sequence_filters() { return kFilters; }

}  // namespace lockstep::jinja

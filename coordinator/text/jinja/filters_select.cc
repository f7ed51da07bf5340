// SPDX-License-Identifier: Apache-2.0
// map, select and their relatives: filters and tests called for every item. What they give can be
// walked once, as Python's generators.
#include <algorithm>

#include "coordinator/text/jinja/access.h"
#include "coordinator/text/jinja/attribute_path.h"
#include "coordinator/text/jinja/operators.h"
#include "coordinator/text/jinja/transforms.h"

namespace lockstep::jinja {
namespace {

// The arguments behind the first `count`.
Arguments without_first(const Arguments& arguments, size_t count) {
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin(),
                        rest.positional.begin() + static_cast<ptrdiff_t>(count));
  return rest;
}

absl::StatusOr<std::vector<Value>> own_items(Call& call) {
  ASSIGN_OR_RETURN(std::vector<Value> items, items_of(call.runtime, call.self));
  call.budget().spend(static_cast<int64_t>(items.size()));
  RETURN_IF_ERROR(call.budget().status());
  return items;
}

Result map_attribute(Call& call) {
  const Value* attribute = nullptr;
  const Value* fallback = nullptr;
  for (const auto& [name, value] : call.arguments.named) {
    if (name == "attribute") {
      attribute = &value;
    } else if (name == "default") {
      fallback = value.is_none() ? nullptr : &value;
    } else {
      return invalid_argument("map: unexpected keyword argument '{}'", name);
    }
  }
  const AttributePath path = AttributePath::of(call.runtime, *attribute);
  ASSIGN_OR_RETURN(const std::vector<Value> items, own_items(call));
  std::vector<Value> mapped;
  for (const Value& item : items) {
    ASSIGN_OR_RETURN(Value value, path.get(call.runtime, item, fallback));
    mapped.push_back(std::move(value));
    RETURN_IF_ERROR(call.budget().status());
  }
  return call.runtime.iterator(std::move(mapped));
}

Result map_filter(Call& call) {
  // Jinja looks at the arguments only where there is something to map.
  if (!truth(call.self)) return call.runtime.iterator({});
  const Arguments& arguments = call.arguments;
  if (arguments.positional.empty()) {
    const bool named = std::ranges::any_of(
        arguments.named, [](const auto& argument) { return argument.first == "attribute"; });
    if (named) return map_attribute(call);
    return invalid_argument("map requires a filter argument");
  }
  const Text* name = arguments.positional[0].text();
  const Builtin* filter = name == nullptr ? nullptr : find_filter(name->bytes());
  if (filter == nullptr) return invalid_argument("map: there is no filter of that name");
  const Arguments rest = without_first(arguments, 1);
  ASSIGN_OR_RETURN(const std::vector<Value> items, own_items(call));
  std::vector<Value> mapped;
  for (const Value& item : items) {
    ASSIGN_OR_RETURN(Value value, run_builtin(call.runtime, *filter, item, rest));
    mapped.push_back(std::move(value));
  }
  return call.runtime.iterator(std::move(mapped));
}

// Keeps the items (or those whose attribute) for which the test, else their truth, is kWanted.
template <bool kWanted, bool kAttribute>
Result select(Call& call) {
  if (!truth(call.self)) return call.runtime.iterator({});
  const auto& positional = call.arguments.positional;
  AttributePath path;
  size_t used = 0;
  if (kAttribute) {
    if (positional.empty()) return invalid_argument("Missing parameter for attribute name");
    path = AttributePath::of(call.runtime, positional[0]);
    used = 1;
  }
  const Builtin* test = nullptr;
  if (positional.size() > used) {
    const Text* name = positional[used].text();
    test = name == nullptr ? nullptr : find_test(name->bytes());
    if (test == nullptr) {
      return invalid_argument("{}: there is no test of that name", call.builtin.name);
    }
    ++used;
  }
  const Arguments rest = without_first(call.arguments, used);
  ASSIGN_OR_RETURN(const std::vector<Value> items, own_items(call));
  std::vector<Value> selected;
  for (const Value& item : items) {
    ASSIGN_OR_RETURN(Value value, path.get(call.runtime, item));
    if (test != nullptr) {
      ASSIGN_OR_RETURN(value, run_builtin(call.runtime, *test, value, rest));
    }
    if (truth(value) == kWanted) selected.push_back(item);
    RETURN_IF_ERROR(call.budget().status());
  }
  return call.runtime.iterator(std::move(selected));
}

constexpr Builtin kFilters[] = {
    {"map", "*", map_filter},
    {"reject", "*", select<false, false>},
    {"rejectattr", "*", select<false, true>},
    {"select", "*", select<true, false>},
    {"selectattr", "*", select<true, true>},
};

}  // namespace

AttributePath AttributePath::of(Runtime& runtime, const Value& attribute) {
  AttributePath path;
  const Text* text = attribute.text();
  if (text == nullptr) {
    if (!attribute.is_none()) path.keys_.push_back(attribute);
    return path;
  }
  const std::string dot = ".";
  for (const ByteRange& part : split(text->bytes(), &dot, -1, Ends::kLeft)) {
    const std::string_view name =
        std::string_view(text->bytes()).substr(part.begin, part.end - part.begin);
    const bool digits = !name.empty() && name.size() < 18 &&
                        std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
    runtime.budget.spend(1);
    path.keys_.push_back(digits ? Value(int64_t{std::atoll(std::string(name).c_str())})
                                : runtime.text(name));
  }
  return path;
}

std::vector<AttributePath> AttributePath::several(Runtime& runtime, const Value& attribute) {
  const Text* text = attribute.text();
  if (text == nullptr) return {of(runtime, attribute)};
  std::vector<AttributePath> paths;
  const std::string comma = ",";
  for (const ByteRange& part : split(text->bytes(), &comma, -1, Ends::kLeft)) {
    paths.push_back(of(runtime, runtime.text(text->content.substr(part.begin, part.end))));
  }
  return paths;
}

Result AttributePath::get(Runtime& runtime, const Value& whole, const Value* fallback) const {
  Value value = whole;
  for (const Value& key : keys_) {
    runtime.budget.spend(1);
    ASSIGN_OR_RETURN(value, item(runtime, value, key));
    if (value.is_undefined() && fallback != nullptr) value = *fallback;
  }
  return value;
}

std::span<const Builtin> select_filters() { return kFilters; }

}  // namespace lockstep::jinja

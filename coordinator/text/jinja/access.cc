// SPDX-License-Identifier: Apache-2.0
// Jinja's rules: value.name looks for a method first and then for an item, value["name"] the other
// way round. Methods that change a value are out of reach, as in the reference's sandbox.
#include "coordinator/text/jinja/access.h"

#include <algorithm>

#include "coordinator/text/jinja/builtin.h"
#include "coordinator/text/jinja/characters.h"
#include "coordinator/text/jinja/loop.h"
#include "coordinator/text/jinja/operators.h"
#include "coordinator/text/jinja/show.h"
#include "coordinator/text/jinja/text_parts.h"
#include "coordinator/text/unicode.h"

namespace lockstep::jinja {
namespace {

constexpr size_t kMaxShownKey = 80;

// "'dict object' has no attribute 'x'".
Value missing(Runtime& runtime, const Value& value, const Value& key) {
  const std::string object = value.is_none() ? "None" : fmt::format("{} object", type_name(value));
  if (const Text* name = key.text()) {
    const std::string shown = one_line(clipped(name->bytes(), kMaxShownKey));
    return Value::undefined(fmt::format("'{}' has no attribute '{}'", object, shown));
  }
  MarkedText shown;
  const bool short_key = key.is_number() || key.is_none();
  if (!short_key || !append_repr(runtime, key, &shown).ok()) shown.bytes = type_name(key);
  return Value::undefined(fmt::format("{} has no element {}", object, shown.bytes));
}

bool changes(const Value& value, std::string_view name) {
  constexpr std::string_view kOfDicts[] = {"clear", "pop", "popitem", "setdefault", "update"};
  constexpr std::string_view kOfLists[] = {"append", "clear",  "extend",  "insert",
                                           "pop",    "remove", "reverse", "sort"};
  const auto is_in = [&](const auto& names) {
    return std::ranges::find(names, name) != std::end(names);
  };
  const Sequence* sequence = value.sequence();
  return (value.dict() != nullptr && is_in(kOfDicts)) ||
         (sequence != nullptr && sequence->type == Sequence::Type::kList && is_in(kOfLists));
}

Value names(Runtime& runtime, const std::vector<std::string>& of) {
  std::vector<Value> items;
  items.reserve(of.size());
  for (const std::string& name : of) items.push_back(runtime.text(name));
  return runtime.tuple(std::move(items));
}

std::optional<Value> macro_attribute(Runtime& runtime, const MacroSyntax& macro,
                                     std::string_view name) {
  if (name == "name") return macro.name.empty() ? Value(None{}) : runtime.text(macro.name);
  if (name == "arguments") return names(runtime, macro.parameters);
  if (name == "catch_kwargs") return Value(macro.uses_kwargs);
  if (name == "catch_varargs") return Value(macro.uses_varargs);
  if (name == "caller") return Value(macro.uses_caller);
  return std::nullopt;
}

std::optional<Value> cycler_attribute(Runtime& runtime, const Cycler& cycler,
                                      std::string_view name) {
  if (name == "current") return cycler.items[cycler.place];
  if (name == "pos") return Value(static_cast<int64_t>(cycler.place));
  if (name == "items") return runtime.tuple(cycler.items);
  return std::nullopt;
}

// The attributes that Python's numbers have.
std::optional<Value> number_attribute(const Value& value, std::string_view name) {
  const bool is_integer = value.is_integer();
  if (name == "real" || (is_integer && name == "numerator")) {
    return is_integer ? Value(value.integer()) : value;
  }
  if (name == "imag") return is_integer ? Value(int64_t{0}) : Value(0.0);
  if (is_integer && name == "denominator") return Value(int64_t{1});
  return std::nullopt;
}

std::optional<Value> group_attribute(const Sequence& group, std::string_view name) {
  if (name == "grouper") return group.items[0];
  if (name == "list") return group.items[1];
  return std::nullopt;
}

// What Python's getattr finds: methods, and the parts of namespaces, macros and loops.
absl::StatusOr<std::optional<Value>> own_attribute(Runtime& runtime, const Value& value,
                                                   std::string_view name) {
  using Found = std::optional<Value>;
  if (const auto* space = value.get_if<Namespace*>()) {
    const Value* found = (*space)->attributes.find(name);
    return found == nullptr ? Found() : Found(*found);
  }
  if (const auto* macro = value.get_if<const Macro*>()) {
    return macro_attribute(runtime, *(*macro)->syntax, name);
  }
  if (const auto* loop = value.get_if<Loop*>()) {
    ASSIGN_OR_RETURN(Found found, (*loop)->attribute(name));
    if (found.has_value()) return found;
  }
  if (const auto* cycler = value.get_if<Cycler*>()) {
    if (Found found = cycler_attribute(runtime, **cycler, name)) return found;
  }
  if (value.is_number()) {
    if (Found found = number_attribute(value, name)) return found;
  }
  if (const Sequence* sequence = value.sequence(); sequence != nullptr && sequence->is_group) {
    if (Found found = group_attribute(*sequence, name)) return found;
  }
  if (changes(value, name)) {
    return Found(Value::undefined(
        fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, type_name(value))));
  }
  const Builtin* method = find_method(value, name);
  if (method == nullptr) return Found();
  return Found(FunctionRef(std::make_shared<Function>(Function{method, value})));
}

Result text_item(Runtime& runtime, const Text& text, int64_t index) {
  const std::string& bytes = text.bytes();
  const size_t begin = byte_offset(text, index);
  runtime.budget.scan(text.is_ascii() ? 0 : begin);
  return runtime.text(text.content.substr(begin, begin + code_point_at(bytes, begin).bytes));
}

// The item at an index that may count from the end; nothing where there is none.
absl::StatusOr<std::optional<Value>> indexed_item(Runtime& runtime, const Value& value,
                                                  const Value& key) {
  using Found = std::optional<Value>;
  const Text* text = value.text();
  const Sequence* sequence = value.sequence();
  const bool is_indexed = text != nullptr || (sequence != nullptr && sequence->is_indexed());
  if (!is_indexed || !key.is_integer()) return Found();
  const int64_t count =
      text != nullptr ? text->length : static_cast<int64_t>(sequence->items.size());
  const int64_t index = key.integer() + (key.integer() < 0 ? count : 0);
  if (index < 0 || index >= count) return Found();
  if (text == nullptr) return Found(sequence->items[static_cast<size_t>(index)]);
  ASSIGN_OR_RETURN(Value character, text_item(runtime, *text, index));
  return Found(std::move(character));
}

struct SliceBounds {
  int64_t begin;
  int64_t step;
  int64_t count;
};

absl::StatusOr<SliceBounds> slice_bounds(int64_t length, const Value* start, const Value* stop,
                                         const Value* step_value) {
  for (const Value* bound : {start, stop, step_value}) {
    if (bound != nullptr && !bound->is_none() && !bound->is_integer()) {
      if (bound->is_undefined()) return undefined_error(*bound);
      return invalid_argument("slice indices must be integers or None, not {}", type_name(*bound));
    }
  }
  const auto given = [](const Value* bound) { return bound != nullptr && !bound->is_none(); };
  const int64_t step = given(step_value) ? step_value->integer() : 1;
  if (step == 0) return invalid_argument("slice step cannot be zero");
  const int64_t lowest = step > 0 ? 0 : -1;
  const int64_t highest = step > 0 ? length : length - 1;
  const auto place = [&](const Value* bound, int64_t fallback) {
    if (!given(bound)) return fallback;
    const int64_t index = bound->integer();
    if (index >= 0) return std::min(index, highest);
    return index < -length ? lowest : index + length;
  };
  const int64_t begin = place(start, step > 0 ? lowest : highest);
  const int64_t end = place(stop, step > 0 ? highest : lowest);
  const int64_t distance = step > 0 ? end - begin : begin - end;
  if (distance <= 0) return SliceBounds{begin, step, 0};
  const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : -static_cast<uint64_t>(step);
  const auto count = static_cast<int64_t>((static_cast<uint64_t>(distance) - 1) / stride) + 1;
  return SliceBounds{begin, step, count};
}

Result slice_text(Runtime& runtime, const Text& text, const SliceBounds& bounds) {
  runtime.budget.scan(text.is_ascii() ? 0 : text.bytes().size());
  if (bounds.count == 0) return runtime.text("");
  if (bounds.step == 1) {
    return runtime.text(text.content.substr(byte_offset(text, bounds.begin),
                                            byte_offset(text, bounds.begin + bounds.count)));
  }
  const std::vector<size_t> offsets = byte_offsets(text);
  runtime.budget.scan(text.bytes().size());
  MarkedText picked;
  int64_t index = bounds.begin;
  for (int64_t i = 0; i < bounds.count; ++i) {
    picked.append(text.content, offsets[static_cast<size_t>(index)],
                  offsets[static_cast<size_t>(index) + 1]);
    if (i + 1 < bounds.count) index += bounds.step;
  }
  return runtime.text(std::move(picked));
}

}  // namespace

absl::StatusOr<int64_t> length(const Value& value) {
  if (const Text* text = value.text()) return text->length;
  if (const Dict* dict = value.dict()) return static_cast<int64_t>(dict->entries.size());
  if (value.is_undefined()) return 0;
  const Sequence* sequence = value.sequence();
  if (sequence == nullptr || sequence->type == Sequence::Type::kIterator) {
    return invalid_argument("object of type '{}' has no len()", type_name(value));
  }
  return static_cast<int64_t>(sequence->items.size());
}

absl::StatusOr<std::vector<Value>> items_of(Runtime& runtime, const Value& value) {
  std::vector<Value> items;
  if (const Sequence* sequence = value.sequence()) {
    runtime.budget.copy(sequence->items.size() * sizeof(Value));
    RETURN_IF_ERROR(runtime.budget.status());
    items.assign(sequence->items.begin() + static_cast<ptrdiff_t>(sequence->consumed),
                 sequence->items.end());
    if (sequence->type == Sequence::Type::kIterator) sequence->consumed = sequence->items.size();
    return items;
  }
  if (const Dict* dict = value.dict()) {
    runtime.budget.copy(dict->entries.size() * sizeof(Value));
    RETURN_IF_ERROR(runtime.budget.status());
    for (const auto& entry : dict->entries) items.push_back(entry.first);
    return items;
  }
  if (const Text* text = value.text()) {
    for (size_t at = 0; at < text->bytes().size();) {
      runtime.budget.spend(1);
      RETURN_IF_ERROR(runtime.budget.status());
      const size_t end = at + code_point_at(text->bytes(), at).bytes;
      items.push_back(runtime.text(text->content.substr(at, end)));
      at = end;
    }
    return items;
  }
  if (value.is_undefined()) return items;
  return invalid_argument("'{}' object is not iterable", type_name(value));
}

Result item(Runtime& runtime, const Value& value, const Value& key) {
  if (value.is_undefined()) return undefined_error(value);
  if (const Dict* dict = value.dict(); dict != nullptr && is_hashable(&runtime.budget, key)) {
    if (const Value* found = dict->find(key)) return *found;
  }
  ASSIGN_OR_RETURN(std::optional<Value> found, indexed_item(runtime, value, key));
  if (!found.has_value() && key.text() != nullptr) {
    ASSIGN_OR_RETURN(found, own_attribute(runtime, value, key.text()->bytes()));
  }
  return found.has_value() ? *std::move(found) : missing(runtime, value, key);
}

Result attribute(Runtime& runtime, const Value& value, std::string_view name) {
  if (value.is_undefined() && name.starts_with("__"))
    return missing(runtime, value, runtime.text(name));
  if (value.is_undefined()) return undefined_error(value);
  ASSIGN_OR_RETURN(std::optional<Value> found, own_attribute(runtime, value, name));
  if (found.has_value()) return *std::move(found);
  if (const Dict* dict = value.dict()) {
    if (const Value* entry = dict->find(name)) return *entry;
  }
  return missing(runtime, value, runtime.text(name));
}

Result slice(Runtime& runtime, const Value& value, const Value* start, const Value* stop,
             const Value* step) {
  if (value.is_undefined()) return undefined_error(value);
  const Text* text = value.text();
  const Sequence* sequence = value.sequence();
  if (text == nullptr && (sequence == nullptr || !sequence->is_indexed())) {
    return invalid_argument("'{}' object cannot be sliced", type_name(value));
  }
  ASSIGN_OR_RETURN(const int64_t count, length(value));
  ASSIGN_OR_RETURN(const SliceBounds bounds, slice_bounds(count, start, stop, step));
  if (text != nullptr) return slice_text(runtime, *text, bounds);
  std::vector<Value> items;
  items.reserve(static_cast<size_t>(bounds.count));
  int64_t index = bounds.begin;
  for (int64_t i = 0; i < bounds.count; ++i) {
    items.push_back(sequence->items[static_cast<size_t>(index)]);
    if (i + 1 < bounds.count) index += bounds.step;
  }
  const bool is_range = sequence->type == Sequence::Type::kRange;  // Its slice is shown as a list.
  return runtime.sequence(is_range ? Sequence::Type::kList : sequence->type, std::move(items));
}

}  // namespace lockstep::jinja

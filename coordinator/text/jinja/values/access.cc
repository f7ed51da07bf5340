// SPDX-License-Identifier: Apache-2.0
// Jinja's rules: value.name looks for a method first and then for an item, value["name"] for an
// item first. Methods that change a value are not available, as in the sandbox of transformers.
#include <algorithm>
#include <optional>

#include "coordinator/text/jinja/strings/characters.h"
#include "coordinator/text/jinja/strings/transforms.h"
#include "coordinator/text/jinja/values/builtin.h"
#include "coordinator/text/jinja/values/format.h"
#include "coordinator/text/jinja/values/operators.h"
#include "coordinator/text/unicode/unicode.h"

namespace lockstep::jinja {
namespace {

// "'dict object' has no attribute 'x'".
Value missing(Runtime& runtime, const Value& value, const Value& key) {
  const std::string object = value.is_none() ? "None" : fmt::format("{} object", value.type_name());
  if (const Text* name = key.text()) {
    const std::string shown = one_line(clipped(name->bytes(), 80));
    return Value::undefined(fmt::format("'{}' has no attribute '{}'", object, shown));
  }
  const bool short_key = key.is_number() || key.is_none();
  return Value::undefined(
      fmt::format("{} has no element {}", object,
                  short_key ? repr_of(runtime, key).bytes : std::string(key.type_name())));
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

// Python's getattr: methods, and the members of namespaces, macros and loops.
std::optional<Value> own_attribute(Runtime& runtime, const Value& value, std::string_view name) {
  if (const auto* space = value.get_if<Namespace*>()) {
    const Value* found = (*space)->attributes.find(name);
    return found == nullptr ? std::nullopt : std::optional<Value>(*found);
  }
  if (changes(value, name)) {
    return Value::undefined(
        fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, value.type_name()));
  }
  const Builtin* member = find_member(value, name);
  if (member == nullptr) return std::nullopt;
  if (member->parameters != ".") return runtime.function(*member, value);
  const Arguments none;
  Call call(runtime, *member, value, none);
  return member->run(call);
}

// The item at an index, which may count from the end; nullopt if there is none.
std::optional<Value> indexed_item(Runtime& runtime, const Value& value, const Value& key) {
  const Text* text = value.text();
  const Sequence* sequence = value.sequence();
  if (text == nullptr && (sequence == nullptr || !sequence->is_indexed())) return std::nullopt;
  if (!key.is_integer()) return std::nullopt;
  const int64_t count = length(runtime.budget, value);
  const int64_t index = key.integer() + (key.integer() < 0 ? count : 0);
  if (index < 0 || index >= count) return std::nullopt;
  if (text == nullptr) return sequence->items[static_cast<size_t>(index)];
  const std::string& bytes = text->bytes();
  const size_t begin = text->offset_of(index);
  runtime.budget.scan(text->is_ascii() ? 0 : begin);
  return runtime.text(text->content.substr(begin, begin + code_point_at(bytes, begin).bytes));
}

struct SliceBounds {
  int64_t begin = 0;
  int64_t step = 1;
  int64_t count = 0;
};

SliceBounds slice_bounds(Budget& budget, int64_t length, const Value* start, const Value* stop,
                         const Value* step_value) {
  const auto given = [](const Value* bound) { return bound != nullptr && !bound->is_none(); };
  for (const Value* bound : {start, stop, step_value}) {
    if (given(bound) && !bound->is_integer()) {
      return wrong_type(budget, *bound, "slice indices must be integers or None, not {}",
                        bound->type_name());
    }
  }
  const int64_t step = given(step_value) ? step_value->integer() : 1;
  if (step == 0) return budget.refuse("slice step cannot be zero");
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
  return {begin, step, static_cast<int64_t>(range_length(begin, end, step))};
}

Value slice_text(Runtime& runtime, const Text& text, const SliceBounds& bounds) {
  const std::string& bytes = text.bytes();
  runtime.budget.scan(text.is_ascii() ? 0 : bytes.size());
  if (bounds.count == 0) return runtime.text("");
  if (bounds.step == 1) {
    return runtime.text(text.content.substr(text.offset_of(bounds.begin),
                                            text.offset_of(bounds.begin + bounds.count)));
  }
  const std::vector<size_t> offsets = byte_offsets(bytes);
  runtime.budget.scan(bytes.size());
  MarkedText picked;
  for (int64_t i = 0; i < bounds.count; ++i) {
    const auto index = static_cast<size_t>(bounds.begin + i * bounds.step);
    picked.append(text.content, offsets[index], offsets[index + 1]);
  }
  return runtime.text(std::move(picked));
}

}  // namespace

uint64_t range_length(int64_t start, int64_t stop, int64_t step) {
  if (step > 0 ? start >= stop : start <= stop) return 0;
  // Unsigned numbers wrap around, since the distance may need 64 bits.
  const auto distance = static_cast<uint64_t>(stop) - static_cast<uint64_t>(start);
  const auto stride = static_cast<uint64_t>(step);
  return step > 0 ? (distance - 1) / stride + 1 : (-distance - 1) / -stride + 1;
}

int64_t length(Budget& budget, const Value& value) {
  if (const Text* text = value.text()) return text->length;
  if (const Dict* dict = value.dict()) return static_cast<int64_t>(dict->entries.size());
  if (value.is_undefined()) return 0;
  const Sequence* sequence = value.sequence();
  if (sequence == nullptr || sequence->type == Sequence::Type::kIterator) {
    return budget.refuse("object of type '{}' has no len()", value.type_name());
  }
  return static_cast<int64_t>(sequence->items.size());
}

std::vector<Value> items_of(Runtime& runtime, const Value& value) {
  Budget& budget = runtime.budget;
  std::vector<Value> items;
  if (const Sequence* sequence = value.sequence()) {
    if (!budget.copy(sequence->items.size() * sizeof(Value))) return {};
    items.assign(sequence->items.begin() + static_cast<ptrdiff_t>(sequence->consumed),
                 sequence->items.end());
    if (sequence->type == Sequence::Type::kIterator) sequence->consumed = sequence->items.size();
  } else if (const Dict* dict = value.dict()) {
    if (!budget.copy(dict->entries.size() * sizeof(Value))) return {};
    for (const auto& entry : dict->entries) items.push_back(entry.first);
  } else if (const Text* text = value.text()) {
    for (const Character& c : Characters(text->bytes())) {
      if (!budget.spend(1)) return {};
      items.push_back(runtime.text(text->content.substr(c.begin, c.end)));
    }
  } else if (!value.is_undefined()) {
    budget.refuse("'{}' object is not iterable", value.type_name());
  }
  return items;
}

Value item(Runtime& runtime, const Value& value, const Value& key) {
  if (value.is_undefined()) return runtime.budget.fail(value.undefined_error());
  if (const Dict* dict = value.dict(); dict != nullptr && is_hashable(runtime.budget, key)) {
    if (const Value* found = dict->find(key)) return *found;
  }
  auto found = indexed_item(runtime, value, key);
  if (!found.has_value() && key.text() != nullptr) {
    found = own_attribute(runtime, value, key.text()->bytes());
  }
  return found.has_value() ? *std::move(found) : missing(runtime, value, key);
}

Value attribute(Runtime& runtime, const Value& value, std::string_view name) {
  if (value.is_undefined() && !name.starts_with("__")) {
    return runtime.budget.fail(value.undefined_error());
  }
  auto found = own_attribute(runtime, value, name);
  if (found.has_value()) return *std::move(found);
  if (const Dict* dict = value.dict()) {
    if (const Value* entry = dict->find(name)) return *entry;
  }
  return missing(runtime, value, runtime.text(name));
}

Value slice(Runtime& runtime, const Value& value, const Value* start, const Value* stop,
            const Value* step) {
  const Text* text = value.text();
  const Sequence* sequence = value.sequence();
  if (text == nullptr && (sequence == nullptr || !sequence->is_indexed())) {
    return wrong_type(runtime.budget, value, "'{}' object cannot be sliced", value.type_name());
  }
  const SliceBounds bounds =
      slice_bounds(runtime.budget, length(runtime.budget, value), start, stop, step);
  if (text != nullptr) return slice_text(runtime, *text, bounds);
  std::vector<Value> items;
  for (int64_t i = 0; i < bounds.count; ++i) {
    items.push_back(sequence->items[static_cast<size_t>(bounds.begin + i * bounds.step)]);
  }
  const bool is_range = sequence->type == Sequence::Type::kRange;  // Its slice is a list.
  return runtime.sequence(is_range ? Sequence::Type::kList : sequence->type, std::move(items));
}

AttributePath::AttributePath(Runtime& runtime, const Value* attribute) {
  if (attribute == nullptr || attribute->is_none()) return;
  const Text* text = attribute->text();
  if (text == nullptr) {
    keys_.push_back(*attribute);
    return;
  }
  for (const ByteRange& part : split(text->bytes(), ".")) {
    const std::string name = text->bytes().substr(part.begin, part.end - part.begin);
    const bool is_index = !name.empty() && name.size() < 18 &&
                          name.find_first_not_of("0123456789") == std::string::npos;
    runtime.budget.spend(1);
    keys_.push_back(is_index ? Value(int64_t{std::atoll(name.c_str())}) : runtime.text(name));
  }
}

std::vector<AttributePath> AttributePath::several(Runtime& runtime, const Value& attribute) {
  const Text* text = attribute.text();
  if (text == nullptr) return {AttributePath(runtime, &attribute)};
  std::vector<AttributePath> paths;
  for (const ByteRange& part : split(text->bytes(), ",")) {
    const Value name = runtime.text(text->content.substr(part.begin, part.end));
    paths.emplace_back(runtime, &name);
  }
  return paths;
}

Value AttributePath::get(Runtime& runtime, const Value& whole, const Value* fallback) const {
  Value value = whole;
  for (const Value& key : keys_) {
    runtime.budget.spend(1);
    value = item(runtime, value, key);
    if (value.is_undefined() && fallback != nullptr) value = *fallback;
  }
  return value;
}

}  // namespace lockstep::jinja

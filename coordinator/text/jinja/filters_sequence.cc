// SPDX-License-Identifier: Apache-2.0
// Filters on what can be walked, and on any value.
#include <algorithm>

#include "coordinator/text/jinja/access.h"
#include "coordinator/text/jinja/attribute_path.h"
#include "coordinator/text/jinja/builtin.h"
#include "coordinator/text/jinja/operators.h"
#include "coordinator/text/jinja/show.h"
#include "coordinator/text/jinja/text_parts.h"

namespace lockstep::jinja {
namespace {

Result length_filter(Call& call) {
  ASSIGN_OR_RETURN(const int64_t count, length(call.self));
  return count;
}

Result list_filter(Call& call) {
  ASSIGN_OR_RETURN(std::vector<Value> items, items_of(call.runtime, call.self));
  return call.runtime.list(std::move(items));
}

Result default_filter(Call& call) {
  const bool replaced = call.self.is_undefined() || (call.truth_or(1, false) && !truth(call.self));
  if (!replaced) return call.self;
  return call.has(0) ? call[0] : call.runtime.text("");
}

// The first item, without walking the rest.
Result first(Call& call) {
  const Sequence* sequence = call.self.sequence();
  if (sequence != nullptr && sequence->consumed < sequence->items.size()) {
    const Value item = sequence->items[sequence->consumed];
    if (sequence->type == Sequence::Type::kIterator) ++sequence->consumed;
    return item;
  }
  if (call.self.text() != nullptr && call.self.text()->length > 0) {
    return item(call.runtime, call.self, int64_t{0});
  }
  if (call.self.dict() != nullptr && truth(call.self)) return call.self.dict()->entries[0].first;
  RETURN_IF_ERROR(items_of(call.runtime, call.self).status());
  return Value::undefined("No first item, sequence was empty.");
}

Result last(Call& call) {
  const Sequence* sequence = call.self.sequence();
  if (sequence != nullptr && sequence->type == Sequence::Type::kIterator) {
    return invalid_argument("'{}' object is not reversible", type_name(call.self));
  }
  if (sequence != nullptr && !sequence->items.empty()) return sequence->items.back();
  if (call.self.text() != nullptr && call.self.text()->length > 0) {
    return item(call.runtime, call.self, int64_t{-1});
  }
  if (call.self.dict() != nullptr && truth(call.self)) {
    return call.self.dict()->entries.back().first;
  }
  RETURN_IF_ERROR(items_of(call.runtime, call.self).status());
  return Value::undefined("No last item, sequence was empty.");
}

Result reverse(Call& call) {
  if (const Text* text = call.self.text()) {
    const std::vector<size_t> offsets = byte_offsets(*text);
    call.budget().scan(text->bytes().size());
    MarkedText made;
    for (size_t i = offsets.size() - 1; i > 0; --i) {
      made.append(text->content, offsets[i - 1], offsets[i]);
    }
    return call.runtime.text(std::move(made));
  }
  const Sequence* sequence = call.self.sequence();
  const bool is_iterator = sequence != nullptr && sequence->type == Sequence::Type::kIterator;
  ASSIGN_OR_RETURN(std::vector<Value> items, items_of(call.runtime, call.self));
  std::ranges::reverse(items);
  return is_iterator ? call.runtime.list(std::move(items))
                     : call.runtime.iterator(std::move(items));
}

Result join_filter(Call& call) {
  MarkedText separator;
  if (call.has(0)) {
    ASSIGN_OR_RETURN(separator, call.str(call[0]));
  }
  const AttributePath path =
      call.given(1) == nullptr ? AttributePath() : AttributePath::of(call.runtime, call[1]);
  ASSIGN_OR_RETURN(const std::vector<Value> items, items_of(call.runtime, call.self));
  MarkedText made;
  for (size_t i = 0; i < items.size(); ++i) {
    call.budget().spend(1);
    call.budget().copy(separator.bytes.size());
    if (i > 0) made.append(separator);
    ASSIGN_OR_RETURN(const Value value, path.get(call.runtime, items[i]));
    RETURN_IF_ERROR(append_str(call.runtime, value, &made));
    RETURN_IF_ERROR(call.budget().check_text(made.bytes.size()));
  }
  return call.runtime.text(std::move(made));
}

Result items_filter(Call& call) {
  if (call.self.is_undefined()) return call.runtime.iterator({});
  const Dict* dict = call.self.dict();
  if (dict == nullptr) return invalid_argument("Can only get item pairs from a mapping.");
  std::vector<Value> pairs;
  for (const auto& [key, value] : dict->entries) {
    call.budget().spend(1);
    RETURN_IF_ERROR(call.budget().status());
    pairs.push_back(call.runtime.tuple({key, value}));
  }
  return call.runtime.iterator(std::move(pairs));
}

// Methods and the parts of a namespace, but no items.
Result attr(Call& call) {
  ASSIGN_OR_RETURN(const Text* name, call.text(0));
  if (call.self.dict() != nullptr && find_method(call.self, name->bytes()) == nullptr) {
    return Value::undefined(
        fmt::format("'dict object' has no attribute '{}'", clipped(name->bytes(), 80)));
  }
  return attribute(call.runtime, call.self, name->bytes());
}

// Lists of `linecount` items each; the last one filled up.
Result batch(Call& call) {
  ASSIGN_OR_RETURN(const int64_t size, call.integer_or(0, 0));
  ASSIGN_OR_RETURN(const std::vector<Value> items, items_of(call.runtime, call.self));
  std::vector<Value> batches;
  std::vector<Value> batch;
  call.budget().spend(static_cast<int64_t>(items.size()));
  for (const Value& item : items) {
    if (static_cast<int64_t>(batch.size()) == size) {
      batches.push_back(call.runtime.list(std::exchange(batch, {})));
    }
    batch.push_back(item);
    RETURN_IF_ERROR(call.budget().status());
  }
  while (!batch.empty() && call.given(1) != nullptr && static_cast<int64_t>(batch.size()) < size) {
    call.budget().spend(1);
    RETURN_IF_ERROR(call.budget().status());
    batch.push_back(call[1]);
  }
  if (!batch.empty()) batches.push_back(call.runtime.list(std::move(batch)));
  return call.runtime.iterator(std::move(batches));
}

// So many lists, as even as they get; the later ones filled up.
Result slice_filter(Call& call) {
  ASSIGN_OR_RETURN(const int64_t count, call.integer_or(0, 0));
  ASSIGN_OR_RETURN(const std::vector<Value> items, items_of(call.runtime, call.self));
  if (count == 0) return invalid_argument("integer division or modulo by zero");
  std::vector<Value> slices;
  const auto size = static_cast<int64_t>(items.size());
  int64_t begin = 0;
  for (int64_t i = 0; i < count; ++i) {
    call.budget().spend(1);
    RETURN_IF_ERROR(call.budget().status());
    const int64_t end = begin + size / count + (i < size % count ? 1 : 0);
    std::vector<Value> part(items.begin() + begin, items.begin() + end);
    if (call.given(1) != nullptr && i >= size % count) part.push_back(call[1]);
    slices.push_back(call.runtime.list(std::move(part)));
    begin = end;
  }
  return call.runtime.iterator(std::move(slices));
}

constexpr Builtin kFilters[] = {
    {"attr", "name", attr},
    {"batch", "linecount fill_with?", batch},
    {"count", "", length_filter},
    {"d", "default_value? boolean?", default_filter},
    {"default", "default_value? boolean?", default_filter},
    {"first", "", first},
    {"items", "", items_filter},
    {"join", "d? attribute?", join_filter},
    {"last", "", last},
    {"length", "", length_filter},
    {"list", "", list_filter},
    {"reverse", "", reverse},
    {"slice", "slices fill_with?", slice_filter},
};

}  // namespace

std::span<const Builtin> sequence_filters() { return kFilters; }

}  // namespace lockstep::jinja

// SPDX-License-Identifier: Apache-2.0
// Filters that compare items: with each other, or by an attribute, or in sum.
#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "coordinator/text/jinja/access.h"
#include "coordinator/text/jinja/attribute_path.h"
#include "coordinator/text/jinja/builtin.h"
#include "coordinator/text/jinja/operators.h"
#include "coordinator/text/jinja/transforms.h"

namespace lockstep::jinja {
namespace {

struct Keyed {
  Value key;
  Value item;
};

// A text in lower case, so that case does not count; anything else as it is.
Value without_case(Call& call, const Value& value) {
  if (value.text() == nullptr) return value;
  call.budget().scan(value.text()->bytes().size());
  return call.runtime.text(to_lower(value.text()->content));
}

// The items that are filtered, each with its key: one attribute's value, or a list of several.
absl::StatusOr<std::vector<Keyed>> keyed_items(Call& call, const std::vector<AttributePath>& paths,
                                               bool case_sensitive,
                                               const Value* fallback = nullptr) {
  ASSIGN_OR_RETURN(const std::vector<Value> items, items_of(call.runtime, call.self));
  std::vector<Keyed> keyed;
  for (const Value& item : items) {
    std::vector<Value> keys;
    for (const AttributePath& path : paths) {
      ASSIGN_OR_RETURN(Value key, path.get(call.runtime, item, fallback));
      keys.push_back(case_sensitive ? std::move(key) : without_case(call, key));
    }
    call.budget().spend(1);
    RETURN_IF_ERROR(call.budget().status());
    keyed.push_back({keys.size() == 1 ? keys[0] : call.runtime.list(std::move(keys)), item});
  }
  return keyed;
}

// Equal ones keep their order, also in reverse, as with Python's sorted(). The reference's keys of
// "sort" are lists: those of equal items are equal, whether or not these have an order.
absl::Status sort(Call& call, std::vector<Keyed>* keyed, bool reverse, bool as_lists = false) {
  absl::Status status;
  const auto before = [&](const Keyed& a, const Keyed& b) {
    if (!status.ok()) return false;
    call.budget().spend(1);
    if (as_lists && equal(&call.budget(), a.key, b.key)) return false;
    const auto is_less =
        reverse ? less(&call.budget(), b.key, a.key) : less(&call.budget(), a.key, b.key);
    status = is_less.ok() ? call.budget().status() : is_less.status();
    return status.ok() && *is_less;
  };
  std::stable_sort(keyed->begin(), keyed->end(), before);
  return status;
}

std::vector<Value> items_only(std::vector<Keyed> keyed) {
  std::vector<Value> items;
  items.reserve(keyed.size());
  for (Keyed& entry : keyed) items.push_back(std::move(entry.item));
  return items;
}

AttributePath path_of(Call& call, size_t index) {
  return call.given(index) == nullptr ? AttributePath()
                                      : AttributePath::of(call.runtime, call[index]);
}

Result sort_filter(Call& call) {
  const auto paths = call.given(2) == nullptr ? std::vector<AttributePath>(1)
                                              : AttributePath::several(call.runtime, call[2]);
  ASSIGN_OR_RETURN(std::vector<Keyed> keyed, keyed_items(call, paths, call.truth_or(1, false)));
  RETURN_IF_ERROR(sort(call, &keyed, call.truth_or(0, false), /*as_lists=*/true));
  return call.runtime.list(items_only(std::move(keyed)));
}

Result dictsort(Call& call) {
  std::string by = "key";
  if (call.has(1)) {
    ASSIGN_OR_RETURN(const Text* given, call.text(1));
    by = given->bytes();
  }
  if (by != "key" && by != "value") {
    return invalid_argument("You can only sort by either \"key\" or \"value\"");
  }
  if (call.self.is_undefined()) return undefined_error(call.self);
  const Dict* dict = call.self.dict();
  if (dict == nullptr) return invalid_argument("dictsort: wanted a mapping");
  std::vector<Keyed> keyed;
  for (const auto& [key, value] : dict->entries) {
    call.budget().spend(1);
    RETURN_IF_ERROR(call.budget().status());
    const Value& chosen = by == "key" ? key : value;
    keyed.push_back({call.truth_or(0, false) ? chosen : without_case(call, chosen),
                     call.runtime.tuple({key, value})});
  }
  RETURN_IF_ERROR(sort(call, &keyed, call.truth_or(2, false)));
  return call.runtime.list(items_only(std::move(keyed)));
}

Result unique(Call& call) {
  ASSIGN_OR_RETURN(const std::vector<Keyed> keyed,
                   keyed_items(call, {path_of(call, 1)}, call.truth_or(0, false)));
  absl::flat_hash_set<Value, KeyHash, KeyEqual> seen;
  std::vector<Value> items;
  for (const Keyed& entry : keyed) {
    if (!is_hashable(&call.budget(), entry.key)) {
      return invalid_argument("unhashable type: '{}'", type_name(entry.key));
    }
    if (seen.insert(entry.key).second) items.push_back(entry.item);
  }
  return call.runtime.iterator(std::move(items));
}

template <bool kMax>
Result extreme(Call& call) {
  ASSIGN_OR_RETURN(const std::vector<Keyed> keyed,
                   keyed_items(call, {path_of(call, 1)}, call.truth_or(0, false)));
  if (keyed.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  const Keyed* best = &keyed[0];
  for (size_t i = 1; i < keyed.size(); ++i) {
    const Keyed& entry = keyed[i];
    ASSIGN_OR_RETURN(const bool better, kMax ? less(&call.budget(), best->key, entry.key)
                                             : less(&call.budget(), entry.key, best->key));
    if (better) best = &entry;
    RETURN_IF_ERROR(call.budget().status());
  }
  return best->item;
}

Result sum(Call& call) {
  Value total = call.has(1) ? call[1] : Value(int64_t{0});
  if (total.text() != nullptr) return invalid_argument("sum() can't sum strings");
  const AttributePath path = path_of(call, 0);
  ASSIGN_OR_RETURN(const std::vector<Value> items, items_of(call.runtime, call.self));
  for (const Value& item : items) {
    call.budget().spend(1);
    RETURN_IF_ERROR(call.budget().status());
    ASSIGN_OR_RETURN(const Value value, path.get(call.runtime, item));
    ASSIGN_OR_RETURN(total, arithmetic(call.runtime, Operator::kAdd, total, value));
  }
  return total;
}

// Pairs of a key and the items that have it, by the key's order.
Result groupby(Call& call) {
  const AttributePath path = path_of(call, 0);
  const bool case_sensitive = call.truth_or(2, false);
  ASSIGN_OR_RETURN(std::vector<Keyed> keyed,
                   keyed_items(call, {path}, case_sensitive, call.given(1)));
  RETURN_IF_ERROR(sort(call, &keyed, false));
  std::vector<Value> groups;
  for (size_t begin = 0; begin < keyed.size();) {
    std::vector<Value> items;
    size_t end = begin;
    for (; end < keyed.size() && equal(&call.budget(), keyed[end].key, keyed[begin].key); ++end) {
      items.push_back(keyed[end].item);
    }
    // The key as the first item has it, in its own case. An item may be unequal to itself: NaN.
    if (end == begin) items.push_back(keyed[end++].item);
    ASSIGN_OR_RETURN(Value key, path.get(call.runtime, items[0], call.given(1)));
    groups.push_back(call.runtime.group(std::move(key), std::move(items)));
    RETURN_IF_ERROR(call.budget().status());
    begin = end;
  }
  return call.runtime.list(std::move(groups));
}

constexpr Builtin kFilters[] = {
    {"dictsort", "case_sensitive? by? reverse?", dictsort},
    {"groupby", "attribute default? case_sensitive?", groupby},
    {"max", "case_sensitive? attribute?", extreme<true>},
    {"min", "case_sensitive? attribute?", extreme<false>},
    {"sort", "reverse? case_sensitive? attribute?", sort_filter},
    {"sum", "attribute? start?", sum},
    {"unique", "case_sensitive? attribute?", unique},
};

}  // namespace

std::span<const Builtin> order_filters() { return kFilters; }

}  // namespace lockstep::jinja

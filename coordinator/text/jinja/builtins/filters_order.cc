// SPDX-License-Identifier: Apache-2.0
// Filters that compare items with each other or by an attribute, or sum them.
#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "coordinator/text/jinja/strings/transforms.h"
#include "coordinator/text/jinja/values/builtin.h"
#include "coordinator/text/jinja/values/operators.h"

namespace lockstep::jinja {
namespace {

struct Keyed {
  Value key;
  Value item;
};

// A text in lower case, unless `case_sensitive`; any other value unchanged.
Value key_of(Call& call, const Value& value, bool case_sensitive) {
  if (case_sensitive || value.text() == nullptr) return value;
  call.budget.scan(value.text()->bytes().size());
  return call.runtime.text(to_lower(value.text()->content));
}

// The filtered items, each with its key: the value of one attribute, or a list of several values.
std::vector<Keyed> keyed_items(Call& call, const std::vector<AttributePath>& paths,
                               bool case_sensitive, const Value* fallback = nullptr) {
  std::vector<Keyed> keyed;
  for (const Value& item : items_of(call.runtime, call.self)) {
    std::vector<Value> keys;
    keys.reserve(paths.size());
    for (const AttributePath& path : paths) {
      keys.push_back(key_of(call, path.get(call.runtime, item, fallback), case_sensitive));
    }
    if (!call.budget.spend(1)) return {};
    keyed.push_back({keys.size() == 1 ? keys[0] : call.runtime.list(std::move(keys)), item});
  }
  return keyed;
}

// The same for filters whose parameters are "case_sensitive? attribute?".
std::vector<Keyed> keyed_items(Call& call) {
  return keyed_items(call, {AttributePath(call.runtime, call.given_or_null(1))},
                     call.truth_or(0, false));
}

// Equal items keep their order, also in reverse, as in Python's sorted(). `as_lists`: Jinja's
// "sort" compares lists of keys, and lists of equal items are equal even if the items have no
// order.
void sort(Budget& budget, std::vector<Keyed>* keyed, bool reverse, bool as_lists = false) {
  std::stable_sort(keyed->begin(), keyed->end(), [&](const Keyed& a, const Keyed& b) {
    if (!budget.spend(1) || (as_lists && equal(budget, a.key, b.key))) return false;
    const bool is_less = reverse ? less(budget, b.key, a.key) : less(budget, a.key, b.key);
    return is_less && budget.ok();
  });
}

Value sorted_list(Call& call, std::vector<Keyed> keyed, bool reverse, bool as_lists = false) {
  sort(call.budget, &keyed, reverse, as_lists);
  std::vector<Value> items;
  items.reserve(keyed.size());
  for (Keyed& entry : keyed) items.push_back(std::move(entry.item));
  return call.runtime.list(std::move(items));
}

Value sort_filter(Call& call) {
  const auto paths =
      call.given(2) ? AttributePath::several(call.runtime, call[2]) : std::vector<AttributePath>(1);
  return sorted_list(call, keyed_items(call, paths, call.truth_or(1, false)),
                     call.truth_or(0, false), /*as_lists=*/true);
}

Value dictsort(Call& call) {
  const std::string_view by = call.text_or(1, "key");
  if (by != "key" && by != "value") {
    return call.budget.refuse("You can only sort by either \"key\" or \"value\"");
  }
  const Dict* dict = call.self.dict();
  if (dict == nullptr) return wrong_type(call.budget, call.self, "dictsort: must be a mapping");
  std::vector<Keyed> keyed;
  for (const auto& [key, value] : dict->entries) {
    if (!call.budget.spend(1)) return {};
    keyed.push_back({key_of(call, by == "key" ? key : value, call.truth_or(0, false)),
                     call.runtime.tuple({key, value})});
  }
  return sorted_list(call, std::move(keyed), call.truth_or(2, false));
}

Value unique(Call& call) {
  absl::flat_hash_set<Value, KeyHash, KeyEqual> seen;
  std::vector<Value> items;
  for (const Keyed& entry : keyed_items(call)) {
    if (!check_hashable(call.budget, entry.key)) return {};
    if (seen.insert(entry.key).second) items.push_back(entry.item);
  }
  return call.runtime.iterator(std::move(items));
}

template <bool kMax>
Value extreme(Call& call) {
  const std::vector<Keyed> keyed = keyed_items(call);
  if (keyed.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  const Keyed* best = &keyed[0];
  for (size_t i = 1; i < keyed.size() && call.budget.ok(); ++i) {
    const bool better = kMax ? less(call.budget, best->key, keyed[i].key)
                             : less(call.budget, keyed[i].key, best->key);
    if (better) best = &keyed[i];
  }
  return best->item;
}

Value sum(Call& call) {
  Value total = call.value_or(1, int64_t{0});
  if (total.text() != nullptr) return call.budget.refuse("sum() can't sum strings");
  const AttributePath path(call.runtime, call.given_or_null(0));
  for (const Value& item : items_of(call.runtime, call.self)) {
    if (!call.budget.spend(1)) return {};
    total = arithmetic(call.runtime, Operator::kAdd, total, path.get(call.runtime, item));
  }
  return total;
}

// Pairs of a key and the items with that key, in the order of the keys.
Value groupby(Call& call) {
  const AttributePath path(call.runtime, call.given_or_null(0));
  const Value* fallback = call.given_or_null(1);
  std::vector<Keyed> keyed = keyed_items(call, {path}, call.truth_or(2, false), fallback);
  sort(call.budget, &keyed, false);
  std::vector<Value> groups;
  for (size_t begin = 0; begin < keyed.size() && call.budget.ok();) {
    std::vector<Value> items = {keyed[begin].item};
    size_t end = begin + 1;
    // An item may be unequal to itself: NaN.
    const bool has_order = equal(call.budget, keyed[begin].key, keyed[begin].key);
    while (has_order && end < keyed.size() &&
           equal(call.budget, keyed[end].key, keyed[begin].key)) {
      items.push_back(keyed[end++].item);
    }
    // The key of the first item, in its original case.
    Value key = path.get(call.runtime, items[0], fallback);
    groups.push_back(call.runtime.sequence(Sequence::Type::kTuple,
                                           {std::move(key), call.runtime.list(std::move(items))},
                                           {}, /*is_group=*/true));
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

// SPDX-License-Identifier: Apache-2.0
// Python's dict, and its possible keys.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "coordinator/text/jinja/values/value.h"

namespace lockstep::jinja {

// Values that Python treats as the same key have equal hashes, for instance 1, 1.0 and True.
struct KeyHash {
  using is_transparent = void;
  size_t operator()(const Value& key) const;
  size_t operator()(std::string_view key) const;
};
struct KeyEqual {
  using is_transparent = void;
  bool operator()(const Value& a, const Value& b) const;
  bool operator()(const Value& a, std::string_view b) const;
};
// Whether a value may be a key. The rules are Python's, except that only short, flat tuples may be
// keys. Charges the budget for the lookup of the key.
bool is_hashable(Budget& budget, const Value& key);
// The same; fails if the value may not be a key.
bool check_hashable(Budget& budget, const Value& key);

// Keys in the order in which they were added.
struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  int depth = 1;
  Charge charge;

  // Adds a key or replaces its value. The key must be hashable.
  void set(Value key, Value value);
  template <typename Key>  // Value or std::string_view
  const Value* find(const Key& key) const {
    const auto found = index_.find(key);
    return found == index_.end() ? nullptr : &entries[found->second].second;
  }

 private:
  absl::flat_hash_map<Value, size_t, KeyHash, KeyEqual> index_;
};

}  // namespace lockstep::jinja

// SPDX-License-Identifier: Apache-2.0
// The values of a template: what JSON has, and what Python's Jinja has besides. Texts, lists and
// dicts never change once made, and are shared; namespaces, cyclers, macros and loops belong to the
// rendering (runtime.h) and are only pointed to, so that no cycle can keep memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "coordinator/text/jinja/budget.h"
#include "coordinator/text/marked_text.h"

namespace lockstep::jinja {

struct Text;
struct Sequence;
struct Dict;
struct Function;
struct Namespace;
struct Cycler;
struct Macro;
class Loop;
struct None {};
enum class Unsigned : uint64_t {};  // JSON's, above INT64_MAX: shown, equal to itself, no operand.

// What a name or an attribute that does not exist gives: printed as nothing, an error in use.
struct Undefined {
  std::shared_ptr<const std::string> message;
};

using TextRef = std::shared_ptr<const Text>;
using SequenceRef = std::shared_ptr<const Sequence>;
using DictRef = std::shared_ptr<const Dict>;
using FunctionRef = std::shared_ptr<const Function>;

class Value {
  using Data = std::variant<Undefined, None, bool, int64_t, Unsigned, double, TextRef, SequenceRef,
                            DictRef, FunctionRef, Namespace*, Cycler*, const Macro*, Loop*>;

 public:
  Value() = default;  // Undefined, without a message.
  template <typename T>
  requires(!std::is_same_v<std::decay_t<T>, Value> && std::is_constructible_v<Data, T&&>)
      // A value is any of its kinds, and never itself.
      // NOLINTNEXTLINE(google-explicit-constructor, bugprone-forwarding-reference-overload)
      Value(T&& value)
      : data_(std::forward<T>(value)) {}

  static Value undefined(std::string message) {
    return Undefined{std::make_shared<const std::string>(std::move(message))};
  }

  template <typename T>
  const T* get_if() const {
    return std::get_if<T>(&data_);
  }
  template <typename T>
  bool is() const {
    return std::holds_alternative<T>(data_);
  }

  bool is_undefined() const { return is<Undefined>(); }
  bool is_none() const { return is<None>(); }
  // Null where it is something else.
  const Text* text() const { return is<TextRef>() ? std::get<TextRef>(data_).get() : nullptr; }
  const Sequence* sequence() const {
    return is<SequenceRef>() ? std::get<SequenceRef>(data_).get() : nullptr;
  }
  const Dict* dict() const { return is<DictRef>() ? std::get<DictRef>(data_).get() : nullptr; }

  // bool counts as an integer, as in Python.
  bool is_integer() const { return is<int64_t>() || is<bool>(); }
  bool is_number() const { return is_integer() || is<double>(); }
  int64_t integer() const { return is<bool>() ? std::get<bool>(data_) : std::get<int64_t>(data_); }
  double number() const {
    return is<double>() ? std::get<double>(data_) : static_cast<double>(integer());
  }

 private:
  Data data_;
};

using Result = absl::StatusOr<Value>;

struct Text {
  MarkedText content;
  int64_t length;  // In code points.
  Charge charge;
  const std::string& bytes() const { return content.bytes; }
  bool is_ascii() const { return length == static_cast<int64_t>(content.bytes.size()); }
};

// All that is walked in order. Lists, tuples and ranges have an index; an iterator is walked once.
struct Sequence {
  enum class Type : uint8_t { kList, kTuple, kRange, kKeys, kValues, kItems, kIterator };
  Type type = Type::kList;
  int depth = 1;  // Of sequences and dicts in each other.
  std::vector<Value> items;
  std::string shown;            // Of a range: as Python shows it.
  bool is_group = false;        // A pair of groupby: its items are .grouper and .list, too.
  mutable size_t consumed = 0;  // Of an iterator: how many items were taken.
  Charge charge;
  bool is_indexed() const {
    return type == Type::kList || type == Type::kTuple || type == Type::kRange;
  }
};

// Equal hashes for values that are equal as Python's keys: 1, 1.0 and True are.
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
// Whether it may be a key, as in Python; of tuples short, flat ones. Pays for the look-up.
bool is_hashable(Budget* budget, const Value& key);

// Keys in the order in which they were added.
struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  int depth = 1;
  Charge charge;

  // Replaces the value of a key that is there. The key has to be hashable.
  void set(Value key, Value value);
  template <typename Key>  // Value or std::string_view
  const Value* find(const Key& key) const {
    const auto found = index_.find(key);
    return found == index_.end() ? nullptr : &entries[found->second].second;
  }

 private:
  absl::flat_hash_map<Value, size_t, KeyHash, KeyEqual> index_;
};

// As Python names its type: "str", "dict", "NoneType".
std::string_view type_name(const Value& value);
std::string_view type_name(const Sequence& sequence);

}  // namespace lockstep::jinja

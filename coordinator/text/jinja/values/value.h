// SPDX-License-Identifier: Apache-2.0
// The values of a template: those of JSON, and the other types of Python's Jinja. Texts, lists and
// dicts never change once made, and are shared. Namespaces, cyclers, macros and loops belong to the
// rendering (runtime.h); values only point to them, so that no cycle of values leaks memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "coordinator/text/jinja/strings/budget.h"
#include "coordinator/text/jinja/strings/characters.h"
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
enum class Unsigned : uint64_t {};  // Above INT64_MAX, from JSON: only shown and tested for ==.

// The value of a name or attribute that does not exist. It is printed as nothing and has no items;
// most other uses are errors.
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
  requires(!std::is_same_v<std::decay_t<T>, Value> && !std::is_same_v<std::decay_t<T>, Failed> &&
           std::is_constructible_v<Data, T&&>)
      // Converts any type of Data, but never a Value.
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
  // Null for other values.
  const Text* text() const { return pointer<TextRef>(); }
  const Sequence* sequence() const { return pointer<SequenceRef>(); }
  const Dict* dict() const { return pointer<DictRef>(); }

  // bool counts as an integer, as in Python.
  bool is_integer() const { return is<int64_t>() || is<bool>(); }
  bool is_number() const { return is_integer() || is<double>(); }
  int64_t integer() const { return is<bool>() ? std::get<bool>(data_) : std::get<int64_t>(data_); }
  double number() const {
    return is<double>() ? std::get<double>(data_) : static_cast<double>(integer());
  }

  // Python's name of the type: "str", "dict", "NoneType".
  std::string_view type_name() const;
  // For values without contents: whether both are undefined, none, or the same object.
  bool is_same(const Value& other) const;
  // "'x' is undefined": the error of using an undefined value.
  absl::Status undefined_error() const;

 private:
  template <typename Ref>
  const typename Ref::element_type* pointer() const {
    const Ref* found = get_if<Ref>();
    return found == nullptr ? nullptr : found->get();
  }

  Data data_;
};

// Fails because a value has the wrong type. If the value is undefined, the error is its
// undefined_error().
template <typename... Args>
Failed wrong_type(Budget& budget, const Value& value, fmt::format_string<Args...> format,
                  Args&&... args) {
  return budget.fail(value.is_undefined() ? value.undefined_error()
                                          : invalid_argument(format, std::forward<Args>(args)...));
}

struct Text {
  MarkedText content;
  int64_t length;  // In code points.
  Charge charge;
  const std::string& bytes() const { return content.bytes; }
  bool is_ascii() const { return length == static_cast<int64_t>(content.bytes.size()); }
  // The byte at which a code point begins.
  size_t offset_of(int64_t code_point) const {
    return is_ascii() ? static_cast<size_t>(code_point) : byte_offset(bytes(), code_point);
  }
};

// All iterable values. Lists, tuples and ranges have an index; an iterator can be used once.
struct Sequence {
  enum class Type : uint8_t { kList, kTuple, kRange, kKeys, kValues, kItems, kIterator };
  Type type = Type::kList;
  int depth = 1;  // Levels of sequences and dicts.
  std::vector<Value> items;
  std::string shown;            // A range as Python shows it.
  bool is_group = false;        // A pair of groupby: its items are also .grouper and .list.
  mutable size_t consumed = 0;  // The number of items taken from an iterator.
  Charge charge;
  bool is_indexed() const {
    return type == Type::kList || type == Type::kTuple || type == Type::kRange;
  }
  bool is_list_or_tuple() const { return type == Type::kList || type == Type::kTuple; }
  std::string_view type_name() const;
};

}  // namespace lockstep::jinja

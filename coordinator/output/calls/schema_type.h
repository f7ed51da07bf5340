// SPDX-License-Identifier: Apache-2.0
// The types of a function's parameters, for models that write arguments as text.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace lockstep {

// The types that a parameter may have, in the order of its schema, without duplicates. If there are
// none, the type is unknown.
class SchemaType {
 public:
  enum class Kind : uint8_t { kString, kInteger, kNumber, kBoolean, kArray, kObject, kNull };

  SchemaType() = default;
  // `root`: the whole schema of the parameters, to which "$ref" refers. `budget`: the number of
  // members and values that may still be compared. Types are left out when it is used up.
  SchemaType(const OrderedJson& schema, const OrderedJson& root, int64_t* budget);

  bool is_known() const { return count_ > 0; }
  // Whether string is the only type: a text is then the value, unchanged.
  bool is_string() const { return count_ == 1 && kinds_[0] == Kind::kString; }
  // The JSON of a value that a model wrote as text. A text that fits no other type becomes a
  // string.
  std::string json_of(std::string_view text) const;

 private:
  static constexpr size_t kKinds = 7;

  void add(const OrderedJson& schema, const OrderedJson& root, int depth, int64_t* budget);
  void add(Kind kind);
  void add_named(const OrderedJson& name);
  std::span<const Kind> kinds() const { return std::span(kinds_).first(count_); }

  Kind kinds_[kKinds] = {};
  uint8_t count_ = 0;
};

// The types of the parameters of all functions that a request offers. They are read when the
// request is read, since a model may call functions at any time, and threads that write answers
// have no time for schemas. Reading them takes time in proportion to the tools' texts, whatever the
// schemas refer to. The object takes at most a little more memory than these texts.
class FunctionTypes {
 public:
  // Each tool is the JSON of {"type": "function", "function": {"name": ..., "parameters": ...}}.
  // Tools of other types are ignored.
  explicit FunctionTypes(std::span<const std::string> tools);

  // The approximate memory of this object.
  int64_t bytes() const { return bytes_; }
  // An unknown type if there is no such function or parameter.
  SchemaType type_of(std::string_view function, std::string_view parameter) const;

 private:
  struct Parameter {
    uint32_t name_begin;  // In Function::names.
    uint32_t name_size;
    SchemaType type;
  };
  // Parameters whose types are known, in the order of their names.
  struct Function {
    std::string names;
    std::vector<Parameter> parameters;

    std::string_view name_of(const Parameter& parameter) const {
      return std::string_view(names).substr(parameter.name_begin, parameter.name_size);
    }
  };

  static Function read(const OrderedJson& schema, int64_t* budget);

  std::map<std::string, Function, std::less<>> functions_;
  int64_t bytes_ = 0;
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// The types of a function's parameters, for models that write arguments as text.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace lockstep {

// The types that a parameter may have, in the order of its schema, without duplicates. If there are
// none, the type is unknown. Reading a schema takes bounded time, whatever it refers to.
class SchemaType {
 public:
  enum class Kind { kString, kInteger, kNumber, kBoolean, kArray, kObject, kNull };

  SchemaType() = default;
  // `root`: the whole schema of the parameters, to which "$ref" refers.
  SchemaType(const OrderedJson& schema, const OrderedJson& root);

  // Whether string is the only type: a text is then the value, unchanged.
  bool is_string() const { return kinds_.size() == 1 && kinds_[0] == Kind::kString; }
  // The JSON of a value that a model wrote as text. A text that fits no other type becomes a
  // string.
  std::string json_of(std::string_view text) const;

 private:
  // `steps`: how many more schemas, names and values may be read.
  void add(const OrderedJson& schema, const OrderedJson& root, int depth, int* steps);
  void add(Kind kind);
  void add_named(const OrderedJson& name);

  std::vector<Kind> kinds_;
};

// The types of one function's parameters.
class ParameterTypes {
 public:
  ParameterTypes() = default;  // All types are unknown.
  explicit ParameterTypes(OrderedJson schema) : schema_(std::move(schema)) {}

  // An unknown type if there is no such parameter.
  SchemaType of(std::string_view parameter) const;

 private:
  OrderedJson schema_;
};

// The functions that a request offers. They are kept for the whole answer as texts, because parsed
// schemas take up to 25 times as much memory.
class FunctionSchemas {
 public:
  // Each tool is the JSON of {"type": "function", "function": {"name": ..., "parameters": ...}}.
  // Tools of other types are ignored.
  explicit FunctionSchemas(std::span<const std::string> tools);

  // The approximate memory of the texts, and of the largest schema while it is parsed.
  int64_t bytes() const { return bytes_; }
  // Parses the function's schema. All types are unknown if there is no such function.
  ParameterTypes types_of(std::string_view function) const;

 private:
  std::map<std::string, std::string, std::less<>> tools_;  // By function.
  int64_t bytes_ = 0;
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "coordinator/output/calls/schema_type.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "coordinator/output/calls/json_text.h"
#include "coordinator/output/calls/python_literal.h"

namespace lockstep {
namespace {

using Kind = SchemaType::Kind;

constexpr int kMaxDepth = 16;   // Nested schemas, and references.
constexpr int kMaxSteps = 512;  // References could make a small schema an endless tree.

constexpr std::pair<std::string_view, Kind> kNames[] = {
    {"string", Kind::kString},   {"integer", Kind::kInteger}, {"number", Kind::kNumber},
    {"boolean", Kind::kBoolean}, {"array", Kind::kArray},     {"object", Kind::kObject},
    {"null", Kind::kNull}};

Kind kind_of(const OrderedJson& value) {
  if (value.is_null()) return Kind::kNull;
  if (value.is_boolean()) return Kind::kBoolean;
  if (value.is_number()) return value.is_number_float() ? Kind::kNumber : Kind::kInteger;
  if (value.is_array()) return Kind::kArray;
  return value.is_object() ? Kind::kObject : Kind::kString;
}

// Finds "#/$defs/Name" in the root; null if it does not exist, or is too deep.
const OrderedJson* find_reference(const OrderedJson& reference, const OrderedJson& root,
                                  int* steps) {
  if (!reference.is_string()) return nullptr;
  std::string_view path = reference.get_ref<const std::string&>();
  if (!path.starts_with("#/")) return nullptr;
  const OrderedJson* found = &root;
  for (path.remove_prefix(2); --*steps >= 0;) {
    const size_t slash = path.find('/');
    const auto next =
        found->is_object() ? found->find(std::string(path.substr(0, slash))) : found->end();
    if (next == found->end()) return nullptr;
    found = &*next;
    if (slash == std::string_view::npos) return found;
    path.remove_prefix(slash + 1);
  }
  return nullptr;
}

// A value that a model wrote as JSON or as a Python literal: its kind, and its text as JSON.
struct Read {
  Kind kind;
  bool is_whole = false;  // A number without a fraction.
  std::string json;
};

std::optional<Read> read_value(std::string_view text) {
  std::string json(trimmed(text));
  JsonLimits limits;
  limits.reject_duplicate_keys = false;
  absl::StatusOr<OrderedJson> value = parse_ordered_json(json, "", limits);
  if (!value.ok()) {
    const std::optional<std::string> python = json_of_python(json);
    if (!python.has_value()) return std::nullopt;
    json = *python;
    value = parse_ordered_json(json, "", limits);
    if (!value.ok()) return std::nullopt;
  }
  // A number with more digits than a double is kept as it was written.
  const bool is_integer = json.find_first_not_of("-0123456789") == std::string::npos;
  const bool is_whole = value->is_number_float() && std::trunc(value->get<double>()) == *value;
  return Read{is_integer ? Kind::kInteger : kind_of(*value), is_whole, std::move(json)};
}

// For kString the value is the text itself, with any quotes. A Read is a parsed value, so it never
// fits kString.
bool fits(const Read& value, Kind wanted) {
  if (wanted == Kind::kString) return false;
  if (wanted == Kind::kNumber && value.kind == Kind::kInteger) return true;
  return value.kind == wanted || (wanted == Kind::kInteger && value.is_whole);
}

}  // namespace

SchemaType::SchemaType(const OrderedJson& schema, const OrderedJson& root) {
  int steps = kMaxSteps;
  add(schema, root, kMaxDepth, &steps);
}

void SchemaType::add(Kind kind) {
  if (std::ranges::find(kinds_, kind) == kinds_.end()) kinds_.push_back(kind);
}

void SchemaType::add_named(const OrderedJson& name) {
  for (const auto& [known, kind] : kNames) {
    if (name == known) add(kind);
  }
}

void SchemaType::add(const OrderedJson& schema, const OrderedJson& root, int depth, int* steps) {
  if (!schema.is_object() || depth == 0 || --*steps < 0) return;
  const auto member = [&](const char* key) {
    const auto found = schema.find(key);
    return found == schema.end() ? nullptr : &*found;
  };
  if (const OrderedJson* reference = member("$ref"); reference != nullptr) {
    const OrderedJson* found = find_reference(*reference, root, steps);
    if (found != nullptr) return add(*found, root, depth - 1, steps);
  }
  if (const OrderedJson* type = member("type"); type != nullptr) {
    if (!type->is_array()) return add_named(*type);
    for (const OrderedJson& name : *type) {
      if (--*steps >= 0) add_named(name);
    }
    return;
  }
  for (const char* key : {"anyOf", "oneOf", "allOf"}) {
    const OrderedJson* choices = member(key);
    if (choices == nullptr || !choices->is_array()) continue;
    for (const OrderedJson& choice : *choices) {
      if (*steps >= 0) add(choice, root, depth - 1, steps);
    }
  }
  if (const OrderedJson* values = member("enum"); values != nullptr && values->is_array()) {
    for (const OrderedJson& value : *values) {
      if (--*steps >= 0) add(kind_of(value));
    }
  }
  if (const OrderedJson* value = member("const"); value != nullptr) add(kind_of(*value));
  if (member("properties") != nullptr) add(Kind::kObject);
  if (member("items") != nullptr) add(Kind::kArray);
}

std::string SchemaType::json_of(std::string_view text) const {
  if (is_string()) return json_string(text);
  const std::optional<Read> value = read_value(text);
  if (!value.has_value()) return json_string(text);
  const auto fits_it = [&](Kind wanted) { return fits(*value, wanted); };
  const bool is_known = kinds_.empty() || std::ranges::any_of(kinds_, fits_it);
  return is_known ? value->json : json_string(text);
}

// ---- Functions ----

namespace {

// The name and the parameters of a tool's function; nothing: it has none.
std::optional<std::pair<std::string, OrderedJson>> function_of(const std::string& tool) {
  absl::StatusOr<OrderedJson> json = parse_ordered_json(tool, "a tool");
  if (!json.ok() || !json->is_object() || !json->contains("function")) return std::nullopt;
  OrderedJson& function = (*json)["function"];
  if (!function.is_object() || !function.contains("name") || !function["name"].is_string() ||
      !function.contains("parameters")) {
    return std::nullopt;
  }
  return std::pair(function["name"].get<std::string>(), std::move(function["parameters"]));
}

}  // namespace

SchemaType ParameterTypes::of(std::string_view parameter) const {
  if (!schema_.is_object()) return {};
  const auto properties = schema_.find("properties");
  if (properties == schema_.end() || !properties->is_object()) return {};
  const auto schema = properties->find(std::string(parameter));
  return schema == properties->end() ? SchemaType() : SchemaType(*schema, schema_);
}

FunctionSchemas::FunctionSchemas(std::span<const std::string> tools) {
  constexpr int64_t kBytesPerByte = 32;  // JSON values take more memory than their text.
  int64_t largest = 0;
  for (const std::string& tool : tools) {
    const auto function = function_of(tool);
    if (!function.has_value()) continue;
    tools_[function->first] = tool;
    bytes_ += std::ssize(tool);
    largest = std::max(largest, std::ssize(tool));
  }
  bytes_ += kBytesPerByte * largest;
}

ParameterTypes FunctionSchemas::types_of(std::string_view name) const {
  const auto found = tools_.find(name);
  if (found == tools_.end()) return {};
  std::optional<std::pair<std::string, OrderedJson>> function = function_of(found->second);
  return function.has_value() ? ParameterTypes(std::move(function->second)) : ParameterTypes();
}

}  // namespace lockstep

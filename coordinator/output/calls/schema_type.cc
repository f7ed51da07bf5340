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

constexpr int kMaxDepth = 16;  // Nested schemas, and references.
// The budget for all tools of a request: references could make a small schema an endless tree, and
// each look-up compares all members of an object. Schemas without references need about two per
// byte.
constexpr int64_t kBudget = 1 << 16, kBudgetPerByte = 4;

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

// Null if the object has no such member, or the budget is used up.
const OrderedJson* find_member(const OrderedJson& object, std::string_view key, int64_t* budget) {
  if (!object.is_object()) return nullptr;
  *budget -= std::ssize(object) + 1;
  if (*budget < 0) return nullptr;
  const auto found = object.find(std::string(key));
  return found == object.end() ? nullptr : &*found;
}

// Finds "#/$defs/Name" in the root; null if it does not exist.
const OrderedJson* find_reference(const OrderedJson& reference, const OrderedJson& root,
                                  int64_t* budget) {
  if (!reference.is_string()) return nullptr;
  std::string_view path = reference.get_ref<const std::string&>();
  if (!path.starts_with("#/")) return nullptr;
  path.remove_prefix(2);
  const OrderedJson* found = &root;
  while (found != nullptr) {
    const size_t slash = path.find('/');
    found = find_member(*found, path.substr(0, slash), budget);
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

SchemaType::SchemaType(const OrderedJson& schema, const OrderedJson& root, int64_t* budget) {
  add(schema, root, kMaxDepth, budget);
}

void SchemaType::add(Kind kind) {
  if (std::ranges::find(kinds(), kind) == kinds().end()) kinds_[count_++] = kind;
}

void SchemaType::add_named(const OrderedJson& name) {
  for (const auto& [known, kind] : kNames) {
    if (name == known) add(kind);
  }
}

void SchemaType::add(const OrderedJson& schema, const OrderedJson& root, int depth,
                     int64_t* budget) {
  if (!schema.is_object() || depth == 0) return;
  const auto member = [&](const char* key) { return find_member(schema, key, budget); };
  if (const OrderedJson* reference = member("$ref"); reference != nullptr) {
    const OrderedJson* found = find_reference(*reference, root, budget);
    if (found != nullptr) return add(*found, root, depth - 1, budget);
  }
  if (const OrderedJson* type = member("type"); type != nullptr) {
    if (!type->is_array()) return add_named(*type);
    for (const OrderedJson& name : *type) {
      if (--*budget >= 0) add_named(name);
    }
    return;
  }
  for (const char* key : {"anyOf", "oneOf", "allOf"}) {
    const OrderedJson* choices = member(key);
    if (choices == nullptr || !choices->is_array()) continue;
    for (const OrderedJson& choice : *choices) {
      if (--*budget >= 0) add(choice, root, depth - 1, budget);
    }
  }
  if (const OrderedJson* values = member("enum"); values != nullptr && values->is_array()) {
    for (const OrderedJson& value : *values) {
      if (--*budget >= 0) add(kind_of(value));
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
  const bool is_valid = !is_known() || std::ranges::any_of(kinds(), fits_it);
  return is_valid ? value->json : json_string(text);
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

FunctionTypes::Function FunctionTypes::read(const OrderedJson& schema, int64_t* budget) {
  Function function;
  const OrderedJson* properties = find_member(schema, "properties", budget);
  if (properties == nullptr || !properties->is_object()) return function;
  for (const auto& [name, property] : properties->items()) {
    const SchemaType type(property, schema, budget);
    if (!type.is_known()) continue;
    function.parameters.push_back({.name_begin = static_cast<uint32_t>(function.names.size()),
                                   .name_size = static_cast<uint32_t>(name.size()),
                                   .type = type});
    function.names += name;
  }
  std::ranges::sort(function.parameters, {},
                    [&](const Parameter& parameter) { return function.name_of(parameter); });
  function.names.shrink_to_fit();
  function.parameters.shrink_to_fit();
  return function;
}

FunctionTypes::FunctionTypes(std::span<const std::string> tools) {
  constexpr int64_t kFunctionBytes = 160;  // A node of the map, and its allocations.
  int64_t budget = kBudget;
  for (const std::string& tool : tools) budget += kBudgetPerByte * std::ssize(tool);
  for (const std::string& tool : tools) {
    const auto found = function_of(tool);
    if (found.has_value()) functions_[found->first] = read(found->second, &budget);
  }
  std::erase_if(functions_, [](const auto& entry) { return entry.second.parameters.empty(); });
  for (const auto& [name, function] : functions_) {
    bytes_ += kFunctionBytes + std::ssize(name) + std::ssize(function.names) +
              std::ssize(function.parameters) * static_cast<int64_t>(sizeof(Parameter));
  }
}

SchemaType FunctionTypes::type_of(std::string_view function, std::string_view parameter) const {
  const auto found = functions_.find(function);
  if (found == functions_.end()) return {};
  const Function& known = found->second;
  const auto name_of = [&](const Parameter& one) { return known.name_of(one); };
  const auto at = std::ranges::lower_bound(known.parameters, parameter, {}, name_of);
  return at != known.parameters.end() && name_of(*at) == parameter ? at->type : SchemaType();
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "coordinator/text/jinja/template.h"

#include "coordinator/text/jinja/interpreter.h"
#include "coordinator/text/jinja/parser/parser.h"
#include "coordinator/text/unicode/unicode.h"

namespace lockstep::jinja {

struct Syntax {
  Body body;
  std::set<std::string, std::less<>> names;
};

namespace {

// The JSON was read with a limit on its depth, which limits this recursion. `key` is the key of
// this value in its object.
Value from_json(Runtime& runtime, const OrderedJson& json, std::string_view key,
                IsFromRequest is_from_request) {
  if (!runtime.budget.ok()) return {};
  const auto text = [&](const std::string& bytes, std::string_view under) {
    return runtime.text(MarkedText::of(bytes, is_from_request(under, bytes)));
  };
  switch (json.type()) {
    case OrderedJson::value_t::boolean:
      return json.get<bool>();
    case OrderedJson::value_t::number_unsigned:
      if (json.get<uint64_t>() > uint64_t{INT64_MAX}) return Unsigned{json.get<uint64_t>()};
      [[fallthrough]];
    case OrderedJson::value_t::number_integer:
      return json.get<int64_t>();
    case OrderedJson::value_t::number_float:
      return json.get<double>();
    case OrderedJson::value_t::string:
      return text(json.get_ref<const std::string&>(), key);
    case OrderedJson::value_t::array: {
      std::vector<Value> items;
      for (const OrderedJson& item : json) {
        items.push_back(from_json(runtime, item, {}, is_from_request));
      }
      return runtime.list(std::move(items));
    }
    case OrderedJson::value_t::object: {
      Dict dict;
      for (const auto& [name, item] : json.items()) {
        Value value = from_json(runtime, item, name, is_from_request);
        dict.set(text(name, {}), std::move(value));
      }
      return runtime.dict(std::move(dict));
    }
    default:
      return None{};
  }
}

}  // namespace

absl::StatusOr<Template> Template::parse(std::string_view source, const Limits& limits) {
  if (source.size() > limits.template_bytes) {
    return resource_exhausted("line 1: a template of {} bytes; the limit is {}", source.size(),
                              limits.template_bytes);
  }
  if (const auto invalid = first_invalid_utf8(source); invalid.has_value()) {
    return invalid_argument("line 1: the template is not UTF-8 at byte {}", *invalid);
  }
  const std::string text = normalize_newlines(std::string(source));
  ASSIGN_OR_RETURN(const std::vector<Token> tokens, tokenize(text));
  auto syntax = std::make_shared<Syntax>();
  Parser parser(tokens, limits);
  ASSIGN_OR_RETURN(syntax->body, parser.run());
  syntax->names = parser.names();
  Template parsed;
  parsed.syntax_ = std::move(syntax);
  parsed.limits_ = limits;
  return parsed;
}

bool Template::reads(std::string_view name) const { return syntax_->names.contains(name); }

absl::StatusOr<MarkedText> Template::render(const std::vector<Variable>& variables,
                                            const std::tm& now) const {
  Runtime runtime(limits_, now);
  Scope* scope = runtime.scope(nullptr);
  for (const Variable& variable : variables) {
    scope->variables[variable.name] =
        from_json(runtime, *variable.value, {}, variable.is_from_request);
  }
  RETURN_IF_ERROR(runtime.budget.status());
  Interpreter interpreter(runtime);
  MarkedText text = interpreter.run(syntax_->body, scope);
  const absl::Status& error = runtime.budget.status();
  if (error.ok()) return text;
  return absl::Status(error.code(),
                      fmt::format("line {}: {}", std::max(interpreter.error_line(), 1),
                                  one_line(message_of(error))));
}

}  // namespace lockstep::jinja

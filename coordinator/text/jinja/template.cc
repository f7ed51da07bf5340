// SPDX-License-Identifier: Apache-2.0
#include "coordinator/text/jinja/template.h"

#include "coordinator/text/jinja/from_json.h"
#include "coordinator/text/jinja/interpreter.h"
#include "coordinator/text/jinja/parser.h"
#include "coordinator/text/unicode.h"

namespace lockstep::jinja {

struct Syntax {
  Body body;
  std::set<std::string, std::less<>> names;
};

absl::StatusOr<Template> Template::parse(std::string_view source, const Limits& limits) {
  if (source.size() > limits.template_bytes) {
    return resource_exhausted("line 1: a template of {} bytes; the limit is {}", source.size(),
                              limits.template_bytes);
  }
  if (const auto invalid = first_invalid_utf8(source); invalid.has_value()) {
    return invalid_argument("line 1: the template is not UTF-8 at byte {}", *invalid);
  }
  const std::string text = normalize_newlines(source);
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
    ASSIGN_OR_RETURN(Value value, from_json(runtime, *variable.value, variable.is_from_request));
    scope->variables[variable.name] = std::move(value);
  }
  RETURN_IF_ERROR(runtime.budget.status());
  Interpreter interpreter(runtime);
  auto text = interpreter.run(syntax_->body, scope);
  if (text.ok()) return text;
  const std::string what = one_line(message_of(text.status()));
  return absl::Status(text.status().code(),
                      fmt::format("line {}: {}", std::max(interpreter.error_line(), 1), what));
}

}  // namespace lockstep::jinja

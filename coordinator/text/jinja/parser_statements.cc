// SPDX-License-Identifier: Apache-2.0
// One function per tag. Tags that reach for other templates are refused: a chat template is alone.
#include "coordinator/text/jinja/parser.h"
#include "coordinator/text/jinja/text_parts.h"

namespace lockstep::jinja {

using Kind = Expression::Kind;

// Up to a tag of one of these names, whose name is then the current token; without names up to the
// end of the template.
absl::StatusOr<Body> Parser::body(Names ends) {
  const Nested nested(&depth_);
  RETURN_IF_ERROR(check_depth(depth_));
  Body all;
  while (current().type != Token::Type::kEnd) {
    const Token& token = next();
    if (token.type == Token::Type::kData) {
      Statement data{.kind = Statement::Kind::kData, .line = token.line};
      data.text = MarkedText::of(token.text, false);
      all.push_back(std::move(data));
    } else if (token.type == Token::Type::kOutputBegin) {
      Statement output{.kind = Statement::Kind::kOutput, .line = token.line};
      ASSIGN_OR_RETURN(ExpressionPtr value, tuple());
      output.expressions.push_back(std::move(value));
      RETURN_IF_ERROR(expect(Token::Type::kOutputEnd, "'}}'"));
      all.push_back(std::move(output));
    } else {
      if (is_name_of(ends)) return all;
      ASSIGN_OR_RETURN(Statement parsed, statement());
      RETURN_IF_ERROR(expect(Token::Type::kBlockEnd, "'%}'"));
      all.push_back(std::move(parsed));
    }
  }
  if (ends.size() == 0) return all;
  return fail(fmt::format("the template ends where '{}' is missing", *(ends.end() - 1)));
}

// The rest of a tag, and what is in the block that it begins.
absl::StatusOr<Body> Parser::body_of_block(Names ends) {
  skip_operator(":");
  RETURN_IF_ERROR(expect(Token::Type::kBlockEnd, "'%}'"));
  return body(ends);
}

absl::StatusOr<Statement> Parser::statement() {
  const int line = current().line;
  if (current().type != Token::Type::kName) return unexpected("a tag's name");
  const std::string_view name = current().text;
  const auto unsupported = [&] {
    for (const std::string_view known : {"import", "from", "include", "extends", "block"}) {
      if (name == known) {
        return error_at(line, fmt::format("'{}' is not supported: a template stands alone", name));
      }
    }
    return error_at(line, fmt::format("Encountered unknown tag '{}'.", clipped(name, 40)));
  };
  using Handler = absl::StatusOr<Statement> (Parser::*)(int);
  constexpr std::pair<std::string_view, Handler> kTags[] = {
      {"set", &Parser::set_statement},
      {"if", &Parser::if_statement},
      {"for", &Parser::for_statement},
      {"with", &Parser::with_statement},
      {"macro", &Parser::macro_statement},
      {"call", &Parser::call_statement},
      {"filter", &Parser::filter_statement},
      {"print", &Parser::print_statement},
      {"break", &Parser::break_statement},
      {"continue", &Parser::continue_statement},
      {"generation", &Parser::generation_statement},
  };
  for (const auto& [tag, handler] : kTags) {
    if (!skip_name(tag)) continue;
    const bool was_soft =
        std::exchange(soft_, soft_ && tag != "for" && tag != "macro" && tag != "call" &&
                                 tag != "with" && tag != "filter");
    auto parsed = (this->*handler)(line);
    soft_ = was_soft;
    return parsed;
  }
  return unsupported();
}

absl::StatusOr<Statement> Parser::set_statement(int line) {
  Statement node{.kind = Statement::Kind::kSet, .line = line};
  ASSIGN_OR_RETURN(ExpressionPtr name, target({}, /*with_namespace=*/true));
  node.expressions.push_back(std::move(name));
  if (skip_operator("=")) {
    ASSIGN_OR_RETURN(ExpressionPtr value, tuple());
    node.expressions.push_back(std::move(value));
    return node;
  }
  node.kind = Statement::Kind::kSetBlock;
  ExpressionPtr filters;
  while (is_operator("|")) {
    ASSIGN_OR_RETURN(filters, filter(std::move(filters)));
  }
  node.expressions.push_back(std::move(filters));
  ASSIGN_OR_RETURN(node.body, body_of_block({"endset"}));
  next();
  return node;
}

absl::StatusOr<Statement> Parser::if_statement(int line) {
  Statement node{.kind = Statement::Kind::kIf, .line = line};
  soft_ = true;
  bool more = true;
  while (more) {
    Branch branch;
    ASSIGN_OR_RETURN(branch.condition, tuple(/*with_conditional=*/false));
    ASSIGN_OR_RETURN(branch.body, body_of_block({"elif", "else", "endif"}));
    node.branches.push_back(std::move(branch));
    more = skip_name("elif");
  }
  if (skip_name("else")) {
    Branch branch;
    ASSIGN_OR_RETURN(branch.body, body_of_block({"endif"}));
    node.branches.push_back(std::move(branch));
  }
  next();
  return node;
}

absl::StatusOr<Statement> Parser::for_statement(int line) {
  Statement node{.kind = Statement::Kind::kFor, .line = line};
  ASSIGN_OR_RETURN(ExpressionPtr names, target("in", /*with_namespace=*/false));
  node.expressions.push_back(std::move(names));
  if (!skip_name("in")) return unexpected("'in'");
  ASSIGN_OR_RETURN(ExpressionPtr items, tuple(/*with_conditional=*/false, "recursive"));
  node.expressions.push_back(std::move(items));
  ExpressionPtr condition;
  if (skip_name("if")) {
    ASSIGN_OR_RETURN(condition, expression());
  }
  node.expressions.push_back(std::move(condition));
  node.recursive = skip_name("recursive");
  ++loops_;
  auto repeated = body_of_block({"endfor", "else"});
  --loops_;
  RETURN_IF_ERROR(repeated.status());
  node.body = *std::move(repeated);
  if (skip_name("else")) {
    ASSIGN_OR_RETURN(node.otherwise, body_of_block({"endfor"}));
  }
  next();
  return node;
}

absl::StatusOr<Statement> Parser::with_statement(int line) {
  Statement node{.kind = Statement::Kind::kWith, .line = line};
  while (current().type != Token::Type::kBlockEnd) {
    if (!node.expressions.empty()) RETURN_IF_ERROR(expect_operator(","));
    ASSIGN_OR_RETURN(ExpressionPtr name, target({}, /*with_namespace=*/false));
    node.expressions.push_back(std::move(name));
    RETURN_IF_ERROR(expect_operator("="));
    ASSIGN_OR_RETURN(ExpressionPtr value, expression());
    node.expressions.push_back(std::move(value));
  }
  ASSIGN_OR_RETURN(node.body, body_of_block({"endwith"}));
  next();
  return node;
}

// "(a, b=1)"
absl::Status Parser::parameters(MacroSyntax* macro) {
  RETURN_IF_ERROR(expect_operator("("));
  while (!is_operator(")")) {
    if (!macro->parameters.empty()) RETURN_IF_ERROR(expect_operator(","));
    ASSIGN_OR_RETURN(std::string name, expect_name());
    macro->parameters.push_back(std::move(name));
    if (skip_operator("=")) {
      ASSIGN_OR_RETURN(ExpressionPtr value, expression());
      macro->defaults.push_back(std::move(value));
    } else if (!macro->defaults.empty()) {
      return fail("non-default argument follows default argument");
    }
  }
  next();
  return absl::OkStatus();
}

absl::StatusOr<Body> Parser::macro_body(MacroSyntax* macro, std::string_view end) {
  macros_.push_back(macro);
  const int loops = std::exchange(loops_, 0);
  auto parsed = body_of_block({end});
  loops_ = loops;
  macros_.pop_back();
  if (parsed.ok()) next();
  return parsed;
}

absl::StatusOr<Statement> Parser::macro_statement(int line) {
  Statement node{.kind = Statement::Kind::kMacro, .line = line};
  node.macro = std::make_unique<MacroSyntax>();
  ASSIGN_OR_RETURN(node.macro->name, expect_name());
  RETURN_IF_ERROR(parameters(node.macro.get()));
  ASSIGN_OR_RETURN(node.macro->body, macro_body(node.macro.get(), "endmacro"));
  return node;
}

absl::StatusOr<Statement> Parser::call_statement(int line) {
  Statement node{.kind = Statement::Kind::kCallBlock, .line = line};
  node.macro = std::make_unique<MacroSyntax>();
  if (is_operator("(")) RETURN_IF_ERROR(parameters(node.macro.get()));
  ASSIGN_OR_RETURN(ExpressionPtr called, expression());
  if (called->kind != Kind::kCall) return error_at(line, "expected call");
  node.expressions.push_back(std::move(called));
  ASSIGN_OR_RETURN(node.macro->body, macro_body(node.macro.get(), "endcall"));
  return node;
}

absl::StatusOr<Statement> Parser::filter_statement(int line) {
  Statement node{.kind = Statement::Kind::kFilter, .line = line};
  ExpressionPtr filters;
  do {
    ASSIGN_OR_RETURN(filters, filter(std::move(filters)));
  } while (is_operator("|"));
  node.expressions.push_back(std::move(filters));
  ASSIGN_OR_RETURN(node.body, body_of_block({"endfilter"}));
  next();
  return node;
}

absl::StatusOr<Statement> Parser::print_statement(int line) {
  Statement node{.kind = Statement::Kind::kOutput, .line = line};
  while (current().type != Token::Type::kBlockEnd) {
    if (!node.expressions.empty()) RETURN_IF_ERROR(expect_operator(","));
    ASSIGN_OR_RETURN(ExpressionPtr value, expression());
    node.expressions.push_back(std::move(value));
  }
  return node;
}

// The assistant's words, for training: printed like anything else.
absl::StatusOr<Statement> Parser::generation_statement(int line) {
  Statement node{.kind = Statement::Kind::kGeneration, .line = line};
  const int loops = std::exchange(loops_, 0);
  auto parsed = body_of_block({"endgeneration"});
  loops_ = loops;
  RETURN_IF_ERROR(parsed.status());
  node.body = *std::move(parsed);
  next();
  return node;
}

absl::StatusOr<Statement> Parser::break_statement(int line) {
  if (loops_ == 0) return error_at(line, "'break' outside of a loop");
  return Statement{.kind = Statement::Kind::kBreak, .line = line};
}

absl::StatusOr<Statement> Parser::continue_statement(int line) {
  if (loops_ == 0) return error_at(line, "'continue' outside of a loop");
  return Statement{.kind = Statement::Kind::kContinue, .line = line};
}

// Names with commas between them, up to the name `end`.
Parser::Parsed Parser::target(std::string_view end, bool with_namespace) {
  const Nested nested(&depth_);
  RETURN_IF_ERROR(check_depth(depth_));
  const int line = current().line;
  ASSIGN_OR_RETURN(ExpressionPtr first, target_item(with_namespace));
  if (!is_operator(",")) return first;
  ExpressionPtr node = make(Kind::kTuple, line);
  node->operands.push_back(std::move(first));
  while (skip_operator(",")) {
    if (current().type == Token::Type::kBlockEnd || is_operator(")") || is_operator("=") ||
        (!end.empty() && is_name(end))) {
      break;
    }
    ASSIGN_OR_RETURN(ExpressionPtr item, target_item(with_namespace));
    node->operands.push_back(std::move(item));
  }
  return finish(std::move(node));
}

Parser::Parsed Parser::target_item(bool with_namespace) {
  if (skip_operator("(")) {
    ASSIGN_OR_RETURN(ExpressionPtr inner, target({}, with_namespace));
    RETURN_IF_ERROR(expect_operator(")"));
    return inner;
  }
  if (current().type != Token::Type::kName) return unexpected("a name to set");
  if (is_name_of({"true", "True", "false", "False", "none", "None"})) {
    return unexpected("a name that can be set");
  }
  ExpressionPtr node = make(Kind::kName, current().line);
  node->name = next().text;
  if (with_namespace && skip_operator(".")) {
    node->kind = Kind::kNamespaceAttribute;
    ASSIGN_OR_RETURN(node->attribute, expect_name());
  }
  return node;
}

}  // namespace lockstep::jinja

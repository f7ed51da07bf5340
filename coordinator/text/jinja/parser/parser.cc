// SPDX-License-Identifier: Apache-2.0
// One function per tag. Tags that use other templates are refused: a chat template has none.
#include "coordinator/text/jinja/parser/parser.h"

#include <algorithm>

#include "coordinator/text/jinja/strings/characters.h"

namespace lockstep::jinja {
namespace {

std::string show(const Token& token) {
  switch (token.type) {
    case Token::Type::kEnd:
      return "the end of the template";
    case Token::Type::kData:
      return "text";
    case Token::Type::kOutputBegin:
      return "'{{'";
    case Token::Type::kBlockBegin:
      return "'{%'";
    default:
      return fmt::format("'{}'", clipped(token.text, 40));
  }
}

}  // namespace

absl::StatusOr<Body> Parser::run() {
  Body all = body({});
  RETURN_IF_ERROR(error_);
  return all;
}

Failed Parser::fail(int line, std::string_view what) {
  if (error_.ok()) error_ = error_at(line, what);
  at_ = tokens_.size() - 1;
  return {};
}

Failed Parser::unexpected(std::string_view wanted) {
  return fail(fmt::format("expected {}, found {}", wanted, show(current())));
}

bool Parser::check_depth(int depth) {
  if (depth <= limits_.depth) return true;
  return fail(fmt::format("more than {} levels of blocks, brackets and operators", limits_.depth));
}

bool Parser::is(Token::Type type, std::string_view text, size_t ahead) const {
  const Token& token = tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  return token.type == type && token.text == text;
}

bool Parser::is_name_of(Names names) const {
  return std::ranges::any_of(names, [&](std::string_view name) { return is_name(name); });
}

void Parser::expect_operator(std::string_view text) {
  if (!skip_operator(text)) unexpected(fmt::format("'{}'", text));
}

std::string Parser::expect_name() {
  if (!at(Token::Type::kName)) return unexpected("a name");
  return std::string(next().text);
}

void Parser::expect(Token::Type type, std::string_view shown) {
  if (at(type)) {
    next();
  } else {
    unexpected(shown);
  }
}

// Reads up to a tag with one of these names; the name is then the current token. Without names,
// reads to the end of the template.
Body Parser::body(Names ends) {
  const Level level(&depth_);
  Body all;
  if (!check_depth(depth_)) return all;
  while (!at(Token::Type::kEnd)) {
    const Token& token = next();
    Statement node{.kind = Statement::Kind::kData, .line = token.line};
    if (token.type == Token::Type::kData) {
      node.text = MarkedText::of(token.text, false);
    } else if (token.type == Token::Type::kOutputBegin) {
      node.kind = Statement::Kind::kOutput;
      node.expressions.push_back(tuple());
      expect(Token::Type::kOutputEnd, "'}}'");
    } else {
      if (is_name_of(ends)) return all;
      node = statement();
      expect(Token::Type::kBlockEnd, "'%}'");
    }
    all.push_back(std::move(node));
  }
  if (ends.size() > 0) {
    fail(fmt::format("the template ends, but '{}' is missing", *(ends.end() - 1)));
  }
  return all;
}

// Reads the rest of a tag, and the body of its block. If only one name can end the block, reads
// that name, too.
Body Parser::body_of_block(Names ends) {
  skip_operator(":");
  expect(Token::Type::kBlockEnd, "'%}'");
  Body all = body(ends);
  if (ends.size() == 1) next();
  return all;
}

Statement Parser::statement() {
  struct Tag {
    std::string_view name;
    void (Parser::*parse)(Statement* node);
    Statement::Kind kind;
    bool is_soft;  // Whether soft_ of the code around the tag also applies inside.
  };
  using StatementKind = Statement::Kind;
  constexpr Tag kTags[] = {
      {"set", &Parser::set_statement, StatementKind::kSet, true},
      {"if", &Parser::if_statement, StatementKind::kIf, true},
      {"for", &Parser::for_statement, StatementKind::kFor, false},
      {"with", &Parser::with_statement, StatementKind::kWith, false},
      {"macro", &Parser::macro_statement, StatementKind::kMacro, false},
      {"call", &Parser::call_statement, StatementKind::kCallBlock, false},
      {"filter", &Parser::filter_statement, StatementKind::kFilter, false},
      {"print", &Parser::print_statement, StatementKind::kOutput, true},
      {"break", &Parser::loop_control, StatementKind::kBreak, true},
      {"continue", &Parser::loop_control, StatementKind::kContinue, true},
      {"generation", &Parser::generation_statement, StatementKind::kGeneration, true},
  };
  if (!at(Token::Type::kName)) return unexpected("a tag's name");
  const auto* tag = std::ranges::find(kTags, current().text, &Tag::name);
  if (tag == std::end(kTags)) {
    return fail(is_name_of({"import", "from", "include", "extends", "block"})
                    ? fmt::format("'{}' is not supported: templates cannot use other templates",
                                  current().text)
                    : fmt::format("Encountered unknown tag '{}'.", clipped(current().text, 40)));
  }
  Statement node{.kind = tag->kind, .line = next().line};
  const bool was_soft = std::exchange(soft_, soft_ && tag->is_soft);
  (this->*tag->parse)(&node);
  soft_ = was_soft;
  return node;
}

void Parser::set_statement(Statement* node) {
  ExpressionPtr name = target({}, /*with_namespace=*/true);
  if (skip_operator("=")) {
    node->expressions.push_back(std::move(name));
    node->expressions.push_back(tuple());
    return;
  }
  node->kind = Statement::Kind::kSetBlock;
  node->expressions.push_back(filters());
  node->expressions.push_back(std::move(name));
  node->body = body_of_block({"endset"});
}

void Parser::if_statement(Statement* node) {
  soft_ = true;
  do {
    ExpressionPtr condition = tuple(/*with_conditional=*/false);
    node->branches.push_back({std::move(condition), body_of_block({"elif", "else", "endif"})});
  } while (skip_name("elif"));
  if (!skip_name("else")) {
    next();
  } else {
    node->branches.push_back({nullptr, body_of_block({"endif"})});
  }
}

void Parser::for_statement(Statement* node) {
  node->expressions.push_back(target("in", /*with_namespace=*/false));
  if (!skip_name("in")) unexpected("'in'");
  node->expressions.push_back(tuple(/*with_conditional=*/false, "recursive"));
  node->expressions.push_back(skip_name("if") ? expression() : nullptr);
  node->recursive = skip_name("recursive");
  ++loops_;
  node->body = body_of_block({"endfor", "else"});
  --loops_;
  if (!skip_name("else")) {
    next();
  } else {
    node->otherwise = body_of_block({"endfor"});
  }
}

void Parser::with_statement(Statement* node) {
  while (!at(Token::Type::kBlockEnd) && ok()) {
    if (!node->expressions.empty()) expect_operator(",");
    node->expressions.push_back(target({}, /*with_namespace=*/false));
    expect_operator("=");
    node->expressions.push_back(expression());
  }
  node->body = body_of_block({"endwith"});
}

// Reads "(a, b=1)".
void Parser::parameters(MacroSyntax* macro) {
  const auto parameter = [&] {
    macro->parameters.push_back(expect_name());
    if (skip_operator("=")) {
      macro->defaults.push_back(expression());
    } else if (!macro->defaults.empty()) {
      fail("non-default argument follows default argument");
    }
  };
  expect_operator("(");
  list(")", parameter, /*may_end_with_comma=*/false);
}

void Parser::macro_body(MacroSyntax* macro, std::string_view end) {
  macros_.push_back(macro);
  const int loops = std::exchange(loops_, 0);
  macro->body = body_of_block({end});
  loops_ = loops;
  macros_.pop_back();
}

void Parser::macro_statement(Statement* node) {
  node->macro = std::make_unique<MacroSyntax>();
  node->macro->name = expect_name();
  parameters(node->macro.get());
  macro_body(node->macro.get(), "endmacro");
}

void Parser::call_statement(Statement* node) {
  node->macro = std::make_unique<MacroSyntax>();
  if (is_operator("(")) parameters(node->macro.get());
  node->expressions.push_back(expression());
  const ExpressionPtr& called = node->expressions[0];
  if (called == nullptr || called->kind != Kind::kCall) fail(node->line, "expected call");
  macro_body(node->macro.get(), "endcall");
}

void Parser::filter_statement(Statement* node) {
  node->expressions.push_back(filter(nullptr));
  while (is_operator("|")) node->expressions[0] = filter(std::move(node->expressions[0]));
  node->body = body_of_block({"endfilter"});
}

void Parser::print_statement(Statement* node) {
  while (!at(Token::Type::kBlockEnd) && ok()) {
    if (!node->expressions.empty()) expect_operator(",");
    node->expressions.push_back(expression());
  }
}

// A generation block marks the assistant's words for training; here it is printed like other text.
void Parser::generation_statement(Statement* node) {
  const int loops = std::exchange(loops_, 0);
  node->body = body_of_block({"endgeneration"});
  loops_ = loops;
}

void Parser::loop_control(Statement* node) {
  if (loops_ > 0) return;
  const bool is_break = node->kind == Statement::Kind::kBreak;
  fail(node->line, fmt::format("'{}' outside of a loop", is_break ? "break" : "continue"));
}

// Names separated by commas, up to the name `end`.
ExpressionPtr Parser::target(std::string_view end, bool with_namespace) {
  const Level level(&depth_);
  if (!check_depth(depth_)) return nullptr;
  const int line = current().line;
  ExpressionPtr first = target_item(with_namespace);
  if (!is_operator(",")) return first;
  ExpressionPtr node = make_expression(Kind::kTuple, line, std::move(first));
  while (skip_operator(",")) {
    if (at(Token::Type::kBlockEnd) || is_operator(")") || is_operator("=") ||
        (!end.empty() && is_name(end))) {
      break;
    }
    node->operands.push_back(target_item(with_namespace));
  }
  return finish(std::move(node));
}

ExpressionPtr Parser::target_item(bool with_namespace) {
  if (skip_operator("(")) {
    ExpressionPtr inner = target({}, with_namespace);
    expect_operator(")");
    return inner;
  }
  if (!at(Token::Type::kName)) return unexpected("a name to set");
  if (is_name_of({"true", "True", "false", "False", "none", "None"})) {
    return unexpected("a name that can be set");
  }
  ExpressionPtr node = make_expression(Kind::kName, current().line);
  node->name = next().text;
  if (with_namespace && skip_operator(".")) {
    node->kind = Kind::kNamespaceAttribute;
    node->attribute = expect_name();
  }
  return node;
}

}  // namespace lockstep::jinja

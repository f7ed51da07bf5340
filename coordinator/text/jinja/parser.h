// SPDX-License-Identifier: Apache-2.0
// Tokens to a tree, by the grammar of Jinja 3.1 (jinja2/parser.py) with the tags that chat
// templates have: loop controls and generation; without those that reach for other templates.
#pragma once

#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/text/jinja/lexer.h"
#include "coordinator/text/jinja/syntax.h"

namespace lockstep::jinja {

class Parser {
 public:
  // The tokens have to outlive the parser, which is used once; the tree needs neither.
  Parser(const std::vector<Token>& tokens, const Limits& limits)
      : tokens_(tokens), limits_(limits) {}

  // The whole template. Errors name the line.
  absl::StatusOr<Body> run();
  // Every name whose value an expression of the template reads.
  const std::set<std::string, std::less<>>& names() const { return names_; }

 private:
  using Parsed = absl::StatusOr<ExpressionPtr>;
  using Names = std::initializer_list<std::string_view>;

  // Tokens (parser.cc).
  const Token& current() const { return tokens_[at_]; }
  const Token& next() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool is_operator(std::string_view text, size_t ahead = 0) const;
  bool is_name(std::string_view text, size_t ahead = 0) const;
  bool is_name_of(Names names) const;
  bool skip_operator(std::string_view text);
  bool skip_name(std::string_view text);
  absl::Status expect_operator(std::string_view text);
  absl::StatusOr<std::string> expect_name();
  absl::Status expect(Token::Type type, std::string_view shown);
  absl::Status unexpected(std::string_view wanted) const;
  absl::Status fail(std::string_view what) const { return error_at(current().line, what); }

  // Expressions (parser_expressions.cc), loosest first. Each checks the depth.
  Parsed expression(bool with_conditional = true);
  Parsed conditional();
  Parsed logical_or();
  Parsed logical_and();
  Parsed logical_not();
  Parsed comparison();
  Parsed sum();
  Parsed concatenation();
  Parsed product();
  Parsed power();
  Parsed filtered_unary();
  Parsed unary(bool with_filters);
  Parsed primary();
  Parsed string_literal();
  Parsed number_literal();
  Parsed list_or_dict();
  // What follows an operand (parser_postfix.cc).
  Parsed postfix(ExpressionPtr value);
  Parsed filtered(ExpressionPtr value);
  Parsed member(ExpressionPtr value);
  Parsed subscript(ExpressionPtr value);
  Parsed slice(ExpressionPtr value, ExpressionPtr start, int line);
  Parsed call(ExpressionPtr value);
  Parsed filter(ExpressionPtr value);
  Parsed test(ExpressionPtr value);
  absl::StatusOr<std::vector<Argument>> arguments();
  // Expressions with commas between them make a tuple. `end` is a name that ends it.
  Parsed tuple(bool with_conditional = true, std::string_view end = {}, bool in_brackets = false);
  using Level = Parsed (Parser::*)();
  Parsed chain(Level operand, Expression::Kind kind, Names symbols);
  std::optional<std::string_view> take(Names symbols);

  ExpressionPtr make(Expression::Kind kind, int line) const;
  Parsed finish(ExpressionPtr node) const;

  // Statements (parser_statements.cc).
  absl::StatusOr<Body> body(Names ends);
  absl::StatusOr<Body> body_of_block(Names ends);
  absl::StatusOr<Statement> statement();
  absl::StatusOr<Statement> set_statement(int line);
  absl::StatusOr<Statement> if_statement(int line);
  absl::StatusOr<Statement> for_statement(int line);
  absl::StatusOr<Statement> with_statement(int line);
  absl::StatusOr<Statement> macro_statement(int line);
  absl::StatusOr<Statement> call_statement(int line);
  absl::StatusOr<Statement> filter_statement(int line);
  absl::StatusOr<Statement> print_statement(int line);
  absl::StatusOr<Statement> generation_statement(int line);
  absl::StatusOr<Statement> break_statement(int line);
  absl::StatusOr<Statement> continue_statement(int line);
  absl::Status parameters(MacroSyntax* macro);
  absl::StatusOr<Body> macro_body(MacroSyntax* macro, std::string_view end);
  Parsed target(std::string_view end, bool with_namespace);
  Parsed target_item(bool with_namespace);

  // Counts how deep the parser is in itself.
  class Nested {
   public:
    explicit Nested(int* depth) : depth_(depth) { ++*depth_; }
    ~Nested() { --*depth_; }

   private:
    int* depth_;
  };
  absl::Status check_depth(int depth) const;

  const std::vector<Token>& tokens_;
  const Limits limits_;
  size_t at_ = 0;
  int depth_ = 0;
  int loops_ = 0;  // Around this place, in the same macro.
  // Whether an unknown filter is an error only once it is used: in conditions, as in Jinja.
  bool soft_ = false;
  std::vector<MacroSyntax*> macros_;  // Around this place.
  std::set<std::string, std::less<>> names_;
};

}  // namespace lockstep::jinja

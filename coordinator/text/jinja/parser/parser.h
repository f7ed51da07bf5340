// SPDX-License-Identifier: Apache-2.0
// Parses tokens to a tree, by the grammar of Jinja 3.1 (jinja2/parser.py) and the tags of chat
// templates: loop controls and generation. Tags that use other templates are not supported.
#pragma once

#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/text/jinja/parser/lexer.h"
#include "coordinator/text/jinja/values/syntax.h"

namespace lockstep::jinja {

class Parser {
 public:
  // The tokens must outlive the parser; the tree does not need them. A parser is used once.
  Parser(const std::vector<Token>& tokens, const Limits& limits)
      : tokens_(tokens), limits_(limits) {}

  // The whole template. Errors name the line.
  absl::StatusOr<Body> run();
  // Every name whose value an expression of the template reads.
  const std::set<std::string, std::less<>>& names() const { return names_; }

 private:
  using Kind = Expression::Kind;
  using Names = std::initializer_list<std::string_view>;

  // Keeps the first error. Moves to the end of the template, where no token matches and all loops
  // end; the result is then meaningless.
  Failed fail(int line, std::string_view what);
  Failed fail(std::string_view what) { return fail(current().line, what); }
  Failed unexpected(std::string_view wanted);
  bool check_depth(int depth);

  // Tokens.
  const Token& current() const { return tokens_[at_]; }
  bool at(Token::Type type) const { return current().type == type; }
  bool ok() const { return error_.ok(); }
  const Token& next() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool is(Token::Type type, std::string_view text, size_t ahead) const;
  bool is_operator(std::string_view text, size_t ahead = 0) const {
    return is(Token::Type::kOperator, text, ahead);
  }
  bool is_name(std::string_view text, size_t ahead = 0) const {
    return is(Token::Type::kName, text, ahead);
  }
  bool is_name_of(Names names) const;
  bool skip_operator(std::string_view text) { return is_operator(text) && (next(), true); }
  bool skip_name(std::string_view text) { return is_name(text) && (next(), true); }
  void expect_operator(std::string_view text);
  std::string expect_name();
  void expect(Token::Type type, std::string_view shown);
  // Calls `item` to read each item of a list with commas, then reads the operator `end`.
  // `may_end_with_comma`: a comma may also follow the last item.
  template <typename F>
  void list(std::string_view end, F&& item, bool may_end_with_comma = true);

  // Expressions (parser_expressions.cc).
  ExpressionPtr expression(bool with_conditional = true);
  ExpressionPtr conditional();
  ExpressionPtr chain(size_t level);  // The level of precedence; 0 binds least tightly.
  std::optional<Operator> take_symbol(size_t level);
  ExpressionPtr unary(bool with_filters);
  ExpressionPtr primary();
  ExpressionPtr name_or_constant();
  ExpressionPtr string_literal();
  ExpressionPtr number_literal();
  ExpressionPtr list_or_dict();
  // Parts after an operand.
  ExpressionPtr postfix(ExpressionPtr value, bool filters);
  ExpressionPtr member(ExpressionPtr value);
  ExpressionPtr subscript(ExpressionPtr value);
  ExpressionPtr call(ExpressionPtr value);
  ExpressionPtr filter(ExpressionPtr value);  // A null value is the input of a filter block.
  ExpressionPtr filters();                    // The filters of a block; null if there is none.
  ExpressionPtr test(ExpressionPtr value);
  std::vector<Argument> arguments();
  // Expressions separated by commas make a tuple. `end` is a name that ends the tuple.
  ExpressionPtr tuple(bool with_conditional = true, std::string_view end = {},
                      bool in_brackets = false);
  // Checks the height of the tree.
  ExpressionPtr finish(ExpressionPtr node);

  // Statements (parser.cc).
  Body body(Names ends);
  Body body_of_block(Names ends);
  Statement statement();
  void set_statement(Statement* node);
  void if_statement(Statement* node);
  void for_statement(Statement* node);
  void with_statement(Statement* node);
  void macro_statement(Statement* node);
  void call_statement(Statement* node);
  void filter_statement(Statement* node);
  void print_statement(Statement* node);
  void generation_statement(Statement* node);
  void loop_control(Statement* node);
  void parameters(MacroSyntax* macro);
  void macro_body(MacroSyntax* macro, std::string_view end);
  ExpressionPtr target(std::string_view end, bool with_namespace);
  ExpressionPtr target_item(bool with_namespace);

  const std::vector<Token>& tokens_;
  const Limits limits_;
  absl::Status error_;
  size_t at_ = 0;
  int depth_ = 0;  // The nesting of the parser's calls.
  int loops_ = 0;  // The number of loops around this place, in the same macro.
  // Whether an unknown filter is an error only when it runs. True in conditions, as in Jinja.
  bool soft_ = false;
  std::vector<MacroSyntax*> macros_;  // The macros around this place.
  std::set<std::string, std::less<>> names_;
};

template <typename F>
void Parser::list(std::string_view end, F&& item, bool may_end_with_comma) {
  for (bool first = true; !is_operator(end) && ok(); first = false) {
    if (!first) expect_operator(",");
    if (may_end_with_comma && is_operator(end)) break;
    item();
  }
  expect_operator(end);
}

}  // namespace lockstep::jinja

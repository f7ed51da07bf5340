// SPDX-License-Identifier: Apache-2.0
// One function per level of precedence. Chains of operators become one node, so that long ones
// are not deep.
#include <algorithm>
#include <charconv>

#include "coordinator/text/jinja/builtin.h"
#include "coordinator/text/jinja/characters.h"
#include "coordinator/text/jinja/parser.h"

namespace lockstep::jinja {
namespace {

using Kind = Expression::Kind;

struct Symbol {
  std::string_view text;
  Operator op;
};
constexpr Symbol kSymbols[] = {
    {"+", Operator::kAdd},           {"-", Operator::kSubtract},     {"*", Operator::kMultiply},
    {"/", Operator::kDivide},        {"//", Operator::kFloorDivide}, {"%", Operator::kModulo},
    {"**", Operator::kPower},        {"==", Operator::kEqual},       {"!=", Operator::kNotEqual},
    {"<", Operator::kLess},          {"<=", Operator::kLessEqual},   {">", Operator::kGreater},
    {">=", Operator::kGreaterEqual}, {"in", Operator::kIn},          {"not in", Operator::kNotIn},
};

Operator operator_of(std::string_view text) {
  return std::ranges::find(kSymbols, text, &Symbol::text)->op;
}

Value constant_text(const std::string& text) {
  const int64_t length = count_code_points(text);
  return TextRef(std::make_shared<Text>(Text{MarkedText::of(text, false), length, {}}));
}

}  // namespace

ExpressionPtr Parser::make(Kind kind, int line) const {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->line = line;
  return node;
}

Parser::Parsed Parser::finish(ExpressionPtr node) const {
  int below = 0;
  for (const ExpressionPtr& operand : node->operands) {
    if (operand != nullptr) below = std::max(below, operand->height);
  }
  for (const Argument& argument : node->arguments) below = std::max(below, argument.value->height);
  node->height = below + 1;
  RETURN_IF_ERROR(check_depth(node->height));
  return node;
}

Parser::Parsed Parser::expression(bool with_conditional) {
  const Nested nested(&depth_);
  RETURN_IF_ERROR(check_depth(depth_));
  return with_conditional ? conditional() : logical_or();
}

Parser::Parsed Parser::conditional() {
  const int line = current().line;
  ASSIGN_OR_RETURN(ExpressionPtr value, logical_or());
  while (is_name("if")) {
    next();
    const bool was_soft = std::exchange(soft_, true);
    ExpressionPtr node = make(Kind::kConditional, line);
    node->operands.push_back(std::move(value));
    ASSIGN_OR_RETURN(ExpressionPtr condition, logical_or());
    node->operands.push_back(std::move(condition));
    node->operands.push_back(nullptr);
    if (skip_name("else")) {
      ASSIGN_OR_RETURN(node->operands[2], expression());
    }
    soft_ = was_soft;
    ASSIGN_OR_RETURN(value, finish(std::move(node)));
  }
  return value;
}

// Takes the first of the symbols that is here: an operator, or a name that is one.
std::optional<std::string_view> Parser::take(Names symbols) {
  for (const std::string_view symbol : symbols) {
    if (symbol == "not in" && is_name("not") && is_name("in", 1)) {
      next();
      next();
      return symbol;
    }
    if (skip_operator(symbol) || skip_name(symbol)) return symbol;
  }
  return std::nullopt;
}

// Operands of the next level with any of these symbols between them.
Parser::Parsed Parser::chain(Level operand, Kind kind, Names symbols) {
  const int line = current().line;
  ASSIGN_OR_RETURN(ExpressionPtr first, (this->*operand)());
  ExpressionPtr node;
  while (const auto symbol = take(symbols)) {
    if (node == nullptr) {
      node = make(kind, line);
      node->operands.push_back(std::move(first));
    }
    if (kind == Kind::kArithmetic || kind == Kind::kCompare) {
      node->operators.push_back(operator_of(*symbol));
    }
    ASSIGN_OR_RETURN(ExpressionPtr more, (this->*operand)());
    node->operands.push_back(std::move(more));
  }
  return node == nullptr ? Parsed(std::move(first)) : finish(std::move(node));
}

Parser::Parsed Parser::logical_or() { return chain(&Parser::logical_and, Kind::kOr, {"or"}); }
Parser::Parsed Parser::logical_and() { return chain(&Parser::logical_not, Kind::kAnd, {"and"}); }

Parser::Parsed Parser::logical_not() {
  if (!is_name("not")) return comparison();
  const Nested nested(&depth_);
  RETURN_IF_ERROR(check_depth(depth_));
  ExpressionPtr node = make(Kind::kNot, next().line);
  ASSIGN_OR_RETURN(ExpressionPtr operand, logical_not());
  node->operands.push_back(std::move(operand));
  return finish(std::move(node));
}

Parser::Parsed Parser::comparison() {
  return chain(&Parser::sum, Kind::kCompare, {"==", "!=", "<", "<=", ">", ">=", "in", "not in"});
}
Parser::Parsed Parser::sum() {
  return chain(&Parser::concatenation, Kind::kArithmetic, {"+", "-"});
}
Parser::Parsed Parser::concatenation() { return chain(&Parser::product, Kind::kConcat, {"~"}); }
Parser::Parsed Parser::product() {
  return chain(&Parser::power, Kind::kArithmetic, {"*", "/", "//", "%"});
}
Parser::Parsed Parser::power() { return chain(&Parser::filtered_unary, Kind::kArithmetic, {"**"}); }
Parser::Parsed Parser::filtered_unary() { return unary(true); }

// A filter binds less tightly than a sign, as in Jinja: -x|abs is (-x)|abs.
Parser::Parsed Parser::unary(bool with_filters) {
  ExpressionPtr node;
  if (is_operator("-") || is_operator("+")) {
    const Nested nested(&depth_);
    RETURN_IF_ERROR(check_depth(depth_));
    node = make(is_operator("-") ? Kind::kNegative : Kind::kPositive, current().line);
    next();
    ASSIGN_OR_RETURN(ExpressionPtr operand, unary(false));
    node->operands.push_back(std::move(operand));
    ASSIGN_OR_RETURN(node, finish(std::move(node)));
  } else {
    ASSIGN_OR_RETURN(node, primary());
  }
  ASSIGN_OR_RETURN(node, postfix(std::move(node)));
  return with_filters ? filtered(std::move(node)) : Parsed(std::move(node));
}

Parser::Parsed Parser::primary() {
  const Token& token = current();
  if (token.type == Token::Type::kString) return string_literal();
  if (token.type == Token::Type::kInteger || token.type == Token::Type::kFloat) {
    return number_literal();
  }
  if (is_operator("[") || is_operator("{")) return list_or_dict();
  if (skip_operator("(")) {
    ASSIGN_OR_RETURN(ExpressionPtr inner, tuple(true, {}, true));
    RETURN_IF_ERROR(expect_operator(")"));
    return inner;
  }
  if (token.type != Token::Type::kName) return unexpected("an expression");
  ExpressionPtr node = make(Kind::kConstant, token.line);
  if (is_name_of({"true", "True", "false", "False"})) {
    node->constant = Value(is_name_of({"true", "True"}));
  } else if (is_name_of({"none", "None"})) {
    node->constant = None{};
  } else {
    node->kind = Kind::kName;
    node->name = token.text;
    names_.insert(node->name);
    for (MacroSyntax* macro : macros_) {
      macro->uses_varargs |= token.text == "varargs";
      macro->uses_kwargs |= token.text == "kwargs";
      macro->uses_caller |= token.text == "caller";
    }
  }
  next();
  return node;
}

// Adjacent strings are one.
Parser::Parsed Parser::string_literal() {
  ExpressionPtr node = make(Kind::kConstant, current().line);
  std::string text;
  while (current().type == Token::Type::kString) {
    const auto part = unescape(current().text);
    if (!part.ok()) return fail(message_of(part.status()));
    text += *part;
    next();
  }
  node->constant = constant_text(text);
  return node;
}

Parser::Parsed Parser::number_literal() {
  const Token& token = current();
  ExpressionPtr node = make(Kind::kConstant, token.line);
  std::string digits;
  std::ranges::copy_if(token.text, std::back_inserter(digits), [](char c) { return c != '_'; });
  const char* end = digits.data() + digits.size();
  if (token.type == Token::Type::kFloat) {
    node->constant = std::strtod(digits.c_str(), nullptr);
  } else {
    const char letter = digits.size() > 1 ? static_cast<char>(digits[1] | 32) : '\0';
    const int base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
    int64_t value = 0;
    const char* begin = digits.data() + (base == 10 ? 0 : 2);
    if (std::from_chars(begin, end, value, base).ec != std::errc()) {
      return fail("an integer of more than 64 bits");
    }
    node->constant = value;
  }
  next();
  return node;
}

Parser::Parsed Parser::list_or_dict() {
  const bool is_list = is_operator("[");
  const std::string_view end = is_list ? "]" : "}";
  ExpressionPtr node = make(is_list ? Kind::kList : Kind::kDict, next().line);
  while (!is_operator(end)) {
    if (!node->operands.empty()) RETURN_IF_ERROR(expect_operator(","));
    if (is_operator(end)) break;
    ASSIGN_OR_RETURN(ExpressionPtr item, expression());
    node->operands.push_back(std::move(item));
    if (is_list) continue;
    RETURN_IF_ERROR(expect_operator(":"));
    ASSIGN_OR_RETURN(ExpressionPtr value, expression());
    node->operands.push_back(std::move(value));
  }
  next();
  return finish(std::move(node));
}

Parser::Parsed Parser::tuple(bool with_conditional, std::string_view end, bool in_brackets) {
  const int line = current().line;
  const auto at_end = [&] {
    return current().type == Token::Type::kOutputEnd || current().type == Token::Type::kBlockEnd ||
           is_operator(")") || (!end.empty() && is_name(end));
  };
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
  while (!at_end()) {
    ASSIGN_OR_RETURN(ExpressionPtr item, expression(with_conditional));
    items.push_back(std::move(item));
    if (!skip_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items[0]);
  if (items.empty() && !in_brackets) return unexpected("an expression");
  ExpressionPtr node = make(Kind::kTuple, line);
  node->operands = std::move(items);
  return finish(std::move(node));
}

}  // namespace lockstep::jinja

// SPDX-License-Identifier: Apache-2.0
// A chain of operators of one precedence becomes one node, so that long chains are not deep.
#include <algorithm>
#include <array>
#include <charconv>

#include "coordinator/text/jinja/parser/parser.h"
#include "coordinator/text/jinja/values/builtin.h"
#include "coordinator/text/unicode/unicode.h"

namespace lockstep::jinja {
namespace {

struct Symbol {
  std::string_view text = {};
  Operator op = {};  // For kArithmetic and kCompare.
};

// The binary operators of one precedence, and the kind of node of a chain of them.
struct Precedence {
  Expression::Kind kind;
  std::array<Symbol, 8> symbols;
};
constexpr Precedence kPrecedences[] = {
    {Expression::Kind::kOr, {{{"or"}}}},
    {Expression::Kind::kAnd, {{{"and"}}}},
    {Expression::Kind::kNot, {}},  // In front of its operand.
    {Expression::Kind::kCompare,
     {{{"==", Operator::kEqual},
       {"!=", Operator::kNotEqual},
       {"<", Operator::kLess},
       {"<=", Operator::kLessEqual},
       {">", Operator::kGreater},
       {">=", Operator::kGreaterEqual},
       {"in", Operator::kIn},
       {"not in", Operator::kNotIn}}}},
    {Expression::Kind::kArithmetic, {{{"+", Operator::kAdd}, {"-", Operator::kSubtract}}}},
    {Expression::Kind::kConcat, {{{"~"}}}},
    {Expression::Kind::kArithmetic,
     {{{"*", Operator::kMultiply},
       {"/", Operator::kDivide},
       {"//", Operator::kFloorDivide},
       {"%", Operator::kModulo}}}},
    {Expression::Kind::kArithmetic, {{{"**", Operator::kPower}}}},
};

Value constant_text(const std::string& text) {
  const int64_t length = count_characters(text);
  return TextRef(std::make_shared<Text>(Text{MarkedText::of(text, false), length, {}}));
}

}  // namespace

ExpressionPtr make_expression(Expression::Kind kind, int line, ExpressionPtr operand) {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->line = line;
  if (operand != nullptr) node->operands.push_back(std::move(operand));
  return node;
}

ExpressionPtr Parser::finish(ExpressionPtr node) {
  const auto count = [&](const ExpressionPtr& part) {
    if (part != nullptr) node->height = std::max(node->height, part->height + 1);
  };
  std::ranges::for_each(node->operands, count);
  std::ranges::for_each(node->arguments, count, &Argument::value);
  check_depth(node->height);
  return node;
}

ExpressionPtr Parser::expression(bool with_conditional) {
  const Level level(&depth_);
  if (!check_depth(depth_)) return nullptr;
  return with_conditional ? conditional() : chain(0);
}

ExpressionPtr Parser::conditional() {
  const int line = current().line;
  ExpressionPtr value = chain(0);
  while (skip_name("if")) {
    const bool was_soft = std::exchange(soft_, true);
    ExpressionPtr node = make_expression(Kind::kConditional, line, std::move(value));
    node->operands.push_back(chain(0));
    node->operands.push_back(skip_name("else") ? expression() : nullptr);
    soft_ = was_soft;
    value = finish(std::move(node));
  }
  return value;
}

// Takes the current symbol if it has this precedence: an operator, or a name like `and`.
std::optional<Operator> Parser::take_symbol(size_t level) {
  if (!at(Token::Type::kOperator) && !at(Token::Type::kName)) return std::nullopt;
  for (const Symbol& symbol : kPrecedences[level].symbols) {
    if (symbol.text.empty()) break;
    if (symbol.op == Operator::kNotIn && is_name("not") && is_name("in", 1)) {
      next();
      next();
      return symbol.op;
    }
    if (skip_operator(symbol.text) || skip_name(symbol.text)) return symbol.op;
  }
  return std::nullopt;
}

ExpressionPtr Parser::chain(size_t level) {
  if (level == std::size(kPrecedences)) return unary(true);
  const Kind kind = kPrecedences[level].kind;
  const int line = current().line;
  if (kind == Kind::kNot && skip_name("not")) {
    const Level deeper(&depth_);
    if (!check_depth(depth_)) return nullptr;
    return finish(make_expression(kind, line, chain(level)));
  }
  ExpressionPtr first = chain(level + 1);
  ExpressionPtr node;
  while (const auto op = take_symbol(level)) {
    if (node == nullptr) node = make_expression(kind, line, std::move(first));
    if (kind == Kind::kArithmetic || kind == Kind::kCompare) node->operators.push_back(*op);
    node->operands.push_back(chain(level + 1));
  }
  return node == nullptr ? std::move(first) : finish(std::move(node));
}

// A filter binds less tightly than a sign, as in Jinja: -x|abs is (-x)|abs.
ExpressionPtr Parser::unary(bool with_filters) {
  ExpressionPtr node;
  if (is_operator("-") || is_operator("+")) {
    const Level level(&depth_);
    if (!check_depth(depth_)) return nullptr;
    const Token& sign = next();
    node = finish(make_expression(sign.text == "-" ? Kind::kNegative : Kind::kPositive, sign.line,
                                  unary(false)));
  } else {
    node = primary();
  }
  node = postfix(std::move(node), /*filters=*/false);
  return with_filters ? postfix(std::move(node), /*filters=*/true) : std::move(node);
}

ExpressionPtr Parser::primary() {
  switch (current().type) {
    case Token::Type::kString:
      return string_literal();
    case Token::Type::kInteger:
    case Token::Type::kFloat:
      return number_literal();
    case Token::Type::kName:
      return name_or_constant();
    default:
      break;
  }
  if (is_operator("[") || is_operator("{")) return list_or_dict();
  if (!skip_operator("(")) return unexpected("an expression");
  ExpressionPtr inner = tuple(true, {}, true);
  expect_operator(")");
  return inner;
}

ExpressionPtr Parser::name_or_constant() {
  ExpressionPtr node = make_expression(Kind::kConstant, current().line);
  if (is_name_of({"true", "True", "false", "False"})) {
    node->constant = Value(is_name_of({"true", "True"}));
  } else if (is_name_of({"none", "None"})) {
    node->constant = None{};
  } else {
    node->kind = Kind::kName;
    node->name = current().text;
    names_.insert(node->name);
    for (MacroSyntax* macro : macros_) {
      macro->uses_varargs |= node->name == "varargs";
      macro->uses_kwargs |= node->name == "kwargs";
      macro->uses_caller |= node->name == "caller";
    }
  }
  next();
  return node;
}

// Adjacent strings become one.
ExpressionPtr Parser::string_literal() {
  ExpressionPtr node = make_expression(Kind::kConstant, current().line);
  std::string text;
  while (at(Token::Type::kString)) {
    const auto part = unescape(current().text);
    if (!part.ok()) return fail(message_of(part.status()));
    text += *part;
    next();
  }
  node->constant = constant_text(text);
  return node;
}

ExpressionPtr Parser::number_literal() {
  const Token& token = current();
  ExpressionPtr node = make_expression(Kind::kConstant, token.line);
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

ExpressionPtr Parser::list_or_dict() {
  const bool is_list = is_operator("[");
  ExpressionPtr node = make_expression(is_list ? Kind::kList : Kind::kDict, next().line);
  list(is_list ? "]" : "}", [&] {
    node->operands.push_back(expression());
    if (is_list) return;
    expect_operator(":");
    node->operands.push_back(expression());
  });
  return finish(std::move(node));
}

ExpressionPtr Parser::tuple(bool with_conditional, std::string_view end, bool in_brackets) {
  const auto ends = [&] {
    return at(Token::Type::kOutputEnd) || at(Token::Type::kBlockEnd) || is_operator(")") ||
           (!end.empty() && is_name(end));
  };
  ExpressionPtr node = make_expression(Kind::kTuple, current().line);
  bool is_tuple = false;
  while (!ends()) {
    node->operands.push_back(expression(with_conditional));
    if (!skip_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !node->operands.empty()) return std::move(node->operands[0]);
  if (node->operands.empty() && !in_brackets) return unexpected("an expression");
  return finish(std::move(node));
}

// With `filters`, reads filters and tests; else attributes, items and slices. Reads calls in both
// cases.
ExpressionPtr Parser::postfix(ExpressionPtr value, bool filters) {
  while (true) {
    if (is_operator("(")) {
      value = call(std::move(value));
    } else if (is_operator(filters ? "|" : ".")) {
      value = filters ? filter(std::move(value)) : member(std::move(value));
    } else if (filters ? is_name("is") : is_operator("[")) {
      value = filters ? test(std::move(value)) : subscript(std::move(value));
    } else {
      return value;
    }
  }
}

ExpressionPtr Parser::member(ExpressionPtr value) {
  ExpressionPtr node = make_expression(Kind::kAttribute, next().line, std::move(value));
  if (at(Token::Type::kInteger)) {
    node->kind = Kind::kItem;
    node->operands.push_back(number_literal());
  } else {
    node->name = expect_name();
  }
  return finish(std::move(node));
}

// One key or several, or a slice.
ExpressionPtr Parser::subscript(ExpressionPtr value) {
  const int line = next().line;
  ExpressionPtr node = make_expression(Kind::kItem, line, std::move(value));
  ExpressionPtr keys = make_expression(Kind::kTuple, line);
  while (!is_operator("]") && ok()) {
    if (!keys->operands.empty()) expect_operator(",");
    ExpressionPtr key = is_operator(":") ? nullptr : expression();
    if (is_operator(":")) {
      if (!keys->operands.empty()) return fail("a slice with other keys is not supported");
      node->kind = Kind::kSlice;
      node->operands.push_back(std::move(key));
      for (int i = 0; i < 2; ++i) {
        const bool given = skip_operator(":") && !is_operator(":") && !is_operator("]");
        node->operands.push_back(given ? expression() : nullptr);
      }
      break;
    }
    keys->operands.push_back(std::move(key));
  }
  expect_operator("]");
  if (node->kind == Kind::kItem) {
    node->operands.push_back(keys->operands.size() == 1 ? std::move(keys->operands[0])
                                                        : finish(std::move(keys)));
  }
  return finish(std::move(node));
}

ExpressionPtr Parser::call(ExpressionPtr value) {
  ExpressionPtr node = make_expression(Kind::kCall, current().line, std::move(value));
  node->arguments = arguments();
  return finish(std::move(node));
}

std::vector<Argument> Parser::arguments() {
  using ArgumentKind = Argument::Kind;
  std::vector<Argument> all;
  ArgumentKind last = ArgumentKind::kPositional;
  expect_operator("(");
  list(")", [&] {
    Argument argument{ArgumentKind::kPositional, {}, nullptr};
    if (skip_operator("*")) {
      argument.kind = ArgumentKind::kStar;
    } else if (skip_operator("**")) {
      argument.kind = ArgumentKind::kDoubleStar;
    } else if (at(Token::Type::kName) && is_operator("=", 1)) {
      argument.kind = ArgumentKind::kNamed;
      argument.name = next().text;
      next();
    }
    const bool after_last =
        last == ArgumentKind::kDoubleStar ||
        (argument.kind == ArgumentKind::kPositional && last != ArgumentKind::kPositional) ||
        (argument.kind == ArgumentKind::kStar && last == ArgumentKind::kStar);
    if (after_last) fail("invalid syntax for function call expression");
    last = argument.kind;
    argument.value = expression();
    all.push_back(std::move(argument));
  });
  return all;
}

ExpressionPtr Parser::filters() {
  ExpressionPtr all;
  while (is_operator("|")) all = filter(std::move(all));
  return all;
}

ExpressionPtr Parser::filter(ExpressionPtr value) {
  skip_operator("|");
  ExpressionPtr node = make_expression(Kind::kFilter, current().line);
  node->operands.push_back(std::move(value));
  node->name = expect_name();
  node->builtin = find_filter(node->name);
  if (node->builtin == nullptr && !soft_) {
    fail(node->line, fmt::format("No filter named '{}'.", node->name));
  }
  if (is_operator("(")) node->arguments = arguments();
  return finish(std::move(node));
}

ExpressionPtr Parser::test(ExpressionPtr value) {
  const int line = next().line;
  const bool negated = skip_name("not");
  ExpressionPtr node = make_expression(Kind::kTest, line, std::move(value));
  node->name = expect_name();
  node->builtin = find_test(node->name);
  if (node->builtin == nullptr && !soft_) {
    fail(line, fmt::format("No test named '{}'.", node->name));
  }
  const bool has_operand = at(Token::Type::kName) || at(Token::Type::kString) ||
                           at(Token::Type::kInteger) || at(Token::Type::kFloat) ||
                           is_operator("[") || is_operator("{");
  if (is_operator("(")) {
    node->arguments = arguments();
  } else if (has_operand && !is_name_of({"else", "or", "and"})) {
    if (is_name("is")) return fail("You cannot chain multiple tests with is");
    node->arguments.push_back(
        {Argument::Kind::kPositional, {}, postfix(primary(), /*filters=*/false)});
  }
  node = finish(std::move(node));
  return negated ? finish(make_expression(Kind::kNot, line, std::move(node))) : std::move(node);
}

}  // namespace lockstep::jinja

// SPDX-License-Identifier: Apache-2.0
// What follows an operand: attributes, items, slices, calls, filters and tests.
#include "coordinator/text/jinja/builtin.h"
#include "coordinator/text/jinja/parser.h"

namespace lockstep::jinja {

using Kind = Expression::Kind;

Parser::Parsed Parser::postfix(ExpressionPtr value) {
  while (true) {
    if (is_operator(".")) {
      ASSIGN_OR_RETURN(value, member(std::move(value)));
    } else if (is_operator("[")) {
      ASSIGN_OR_RETURN(value, subscript(std::move(value)));
    } else if (is_operator("(")) {
      ASSIGN_OR_RETURN(value, call(std::move(value)));
    } else {
      return value;
    }
  }
}

Parser::Parsed Parser::filtered(ExpressionPtr value) {
  while (true) {
    if (is_operator("|")) {
      ASSIGN_OR_RETURN(value, filter(std::move(value)));
    } else if (is_name("is")) {
      ASSIGN_OR_RETURN(value, test(std::move(value)));
    } else if (is_operator("(")) {
      ASSIGN_OR_RETURN(value, call(std::move(value)));
    } else {
      return value;
    }
  }
}

Parser::Parsed Parser::member(ExpressionPtr value) {
  const int line = next().line;
  ExpressionPtr node = make(Kind::kAttribute, line);
  node->operands.push_back(std::move(value));
  if (current().type == Token::Type::kInteger) {
    node->kind = Kind::kItem;
    ASSIGN_OR_RETURN(ExpressionPtr index, number_literal());
    node->operands.push_back(std::move(index));
  } else {
    ASSIGN_OR_RETURN(node->name, expect_name());
  }
  return finish(std::move(node));
}

Parser::Parsed Parser::subscript(ExpressionPtr value) {
  const int line = next().line;
  std::vector<ExpressionPtr> keys;
  while (!is_operator("]")) {
    if (!keys.empty()) RETURN_IF_ERROR(expect_operator(","));
    ExpressionPtr key;
    if (!is_operator(":")) {
      ASSIGN_OR_RETURN(key, expression());
    }
    if (is_operator(":")) {
      if (!keys.empty()) return fail("a slice beside other keys is not supported");
      return slice(std::move(value), std::move(key), line);
    }
    keys.push_back(std::move(key));
  }
  next();
  ExpressionPtr node = make(Kind::kItem, line);
  node->operands.push_back(std::move(value));
  if (keys.size() == 1) {
    node->operands.push_back(std::move(keys[0]));
  } else {
    ExpressionPtr all = make(Kind::kTuple, line);
    all->operands = std::move(keys);
    ASSIGN_OR_RETURN(all, finish(std::move(all)));
    node->operands.push_back(std::move(all));
  }
  return finish(std::move(node));
}

// From the first ":" on.
Parser::Parsed Parser::slice(ExpressionPtr value, ExpressionPtr start, int line) {
  ExpressionPtr node = make(Kind::kSlice, line);
  node->operands.push_back(std::move(value));
  node->operands.push_back(std::move(start));
  for (int i = 0; i < 2; ++i) {
    ExpressionPtr bound;
    if (skip_operator(":") && !is_operator(":") && !is_operator("]")) {
      ASSIGN_OR_RETURN(bound, expression());
    }
    node->operands.push_back(std::move(bound));
  }
  RETURN_IF_ERROR(expect_operator("]"));
  return finish(std::move(node));
}

Parser::Parsed Parser::call(ExpressionPtr value) {
  ExpressionPtr node = make(Kind::kCall, current().line);
  node->operands.push_back(std::move(value));
  ASSIGN_OR_RETURN(node->arguments, arguments());
  return finish(std::move(node));
}

absl::StatusOr<std::vector<Argument>> Parser::arguments() {
  using ArgumentKind = Argument::Kind;
  RETURN_IF_ERROR(expect_operator("("));
  std::vector<Argument> all;
  ArgumentKind last = ArgumentKind::kPositional;
  while (!is_operator(")")) {
    if (!all.empty()) RETURN_IF_ERROR(expect_operator(","));
    if (is_operator(")")) break;
    Argument argument{ArgumentKind::kPositional, {}, nullptr};
    if (skip_operator("*")) {
      argument.kind = ArgumentKind::kStar;
    } else if (skip_operator("**")) {
      argument.kind = ArgumentKind::kDoubleStar;
    } else if (current().type == Token::Type::kName && is_operator("=", 1)) {
      argument.kind = ArgumentKind::kNamed;
      argument.name = next().text;
      next();
    }
    const bool after_last =
        last == ArgumentKind::kDoubleStar ||
        (argument.kind == ArgumentKind::kPositional && last != ArgumentKind::kPositional) ||
        (argument.kind == ArgumentKind::kStar && last == ArgumentKind::kStar);
    if (after_last) return fail("invalid syntax for function call expression");
    last = argument.kind;
    ASSIGN_OR_RETURN(argument.value, expression());
    all.push_back(std::move(argument));
  }
  next();
  return all;
}

// From the filter's name on; a null value is that of a filter block.
Parser::Parsed Parser::filter(ExpressionPtr value) {
  skip_operator("|");
  ExpressionPtr node = make(Kind::kFilter, current().line);
  node->operands.push_back(std::move(value));
  ASSIGN_OR_RETURN(node->name, expect_name());
  node->builtin = find_filter(node->name);
  if (node->builtin == nullptr && !soft_) {
    return error_at(node->line, fmt::format("No filter named '{}'.", node->name));
  }
  if (is_operator("(")) {
    ASSIGN_OR_RETURN(node->arguments, arguments());
  }
  return finish(std::move(node));
}

Parser::Parsed Parser::test(ExpressionPtr value) {
  ExpressionPtr node = make(Kind::kTest, next().line);
  const bool negated = skip_name("not");
  node->operands.push_back(std::move(value));
  ASSIGN_OR_RETURN(node->name, expect_name());
  node->builtin = find_test(node->name);
  if (node->builtin == nullptr && !soft_) {
    return error_at(node->line, fmt::format("No test named '{}'.", node->name));
  }
  const Token::Type type = current().type;
  const bool has_operand = type == Token::Type::kName || type == Token::Type::kString ||
                           type == Token::Type::kInteger || type == Token::Type::kFloat ||
                           is_operator("[") || is_operator("{");
  if (is_operator("(")) {
    ASSIGN_OR_RETURN(node->arguments, arguments());
  } else if (has_operand && !is_name_of({"else", "or", "and"})) {
    if (is_name("is")) return fail("You cannot chain multiple tests with is");
    ASSIGN_OR_RETURN(ExpressionPtr operand, primary());
    ASSIGN_OR_RETURN(operand, postfix(std::move(operand)));
    node->arguments.push_back({Argument::Kind::kPositional, {}, std::move(operand)});
  }
  ASSIGN_OR_RETURN(node, finish(std::move(node)));
  if (!negated) return node;
  ExpressionPtr outer = make(Kind::kNot, node->line);
  outer->operands.push_back(std::move(node));
  return finish(std::move(outer));
}

}  // namespace lockstep::jinja

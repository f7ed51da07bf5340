// SPDX-License-Identifier: Apache-2.0
#include "coordinator/text/jinja/parser.h"

#include <algorithm>

#include "coordinator/text/jinja/text_parts.h"

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
  ASSIGN_OR_RETURN(Body all, body({}));
  return all;
}

bool Parser::is_operator(std::string_view text, size_t ahead) const {
  const Token& token = tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  return token.type == Token::Type::kOperator && token.text == text;
}

bool Parser::is_name(std::string_view text, size_t ahead) const {
  const Token& token = tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  return token.type == Token::Type::kName && token.text == text;
}

bool Parser::is_name_of(Names names) const {
  return std::ranges::any_of(names, [&](std::string_view name) { return is_name(name); });
}

bool Parser::skip_operator(std::string_view text) {
  if (!is_operator(text)) return false;
  next();
  return true;
}

bool Parser::skip_name(std::string_view text) {
  if (!is_name(text)) return false;
  next();
  return true;
}

absl::Status Parser::unexpected(std::string_view wanted) const {
  return fail(fmt::format("wanted {}, found {}", wanted, show(current())));
}

absl::Status Parser::expect_operator(std::string_view text) {
  if (skip_operator(text)) return absl::OkStatus();
  return unexpected(fmt::format("'{}'", text));
}

absl::StatusOr<std::string> Parser::expect_name() {
  if (current().type != Token::Type::kName) return unexpected("a name");
  return std::string(next().text);
}

absl::Status Parser::expect(Token::Type type, std::string_view shown) {
  if (current().type != type) return unexpected(shown);
  next();
  return absl::OkStatus();
}

absl::Status Parser::check_depth(int depth) const {
  if (depth <= limits_.depth) return absl::OkStatus();
  return fail(fmt::format("more than {} levels of blocks, brackets and operators", limits_.depth));
}

}  // namespace lockstep::jinja

// SPDX-License-Identifier: Apache-2.0
// Oniguruma's classes: "&&" binds less tightly than the union of adjacent members, and more tightly
// than "^". A class inside a class is a member of the union.
#include "coordinator/text/regex/regex_class.h"

#include <cctype>

#include "coordinator/text/unicode/unicode.h"
#include "coordinator/text/unicode/unicode_properties.h"

namespace lockstep {
namespace {

constexpr int kMaxClassDepth = 50;

const CodePointSet& digit_set() {
  static const CodePointSet set = *property_set("Nd");
  return set;
}

const CodePointSet& space_set() {
  static const CodePointSet set = {
      {'\t', '\r'},     {' ', ' '},       {0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680},
      {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};
  return set;
}

RegexMember of_set(CodePointSet set, bool negated) {
  return {std::nullopt, negated ? set.complement() : std::move(set)};
}

// Reads {name} or {^name} after \p or \P.
absl::StatusOr<RegexMember> parse_property(RegexCursor* cursor, bool negated, bool in_class) {
  if (!cursor->take("{")) return leave_to_oniguruma("\\p without {");
  if (cursor->take("^")) negated = !negated;
  const size_t close = cursor->rest().find('}');
  if (close == std::string_view::npos) return leave_to_oniguruma("\\p without }");
  std::optional<CodePointSet> set = property_set(cursor->rest().substr(0, close));
  if (!set.has_value()) return leave_to_oniguruma("an unknown property");
  if (!in_class && *set == class_word_set()) set = word_set();
  cursor->at += close + 1;
  return of_set(*std::move(set), negated);
}

// Reads the digits after \x: {H...}, or two digits below hexadecimal 80 (from 80 on, Oniguruma
// means a byte). After \u (`four`), reads four digits.
absl::StatusOr<RegexMember> parse_hex(RegexCursor* cursor, bool four) {
  const bool braces = !four && cursor->take("{");
  const size_t max_digits = braces ? 6 : four ? 4 : 2;
  char32_t value = 0;
  size_t digits = 0;
  while (!cursor->done() && digits < max_digits &&
         std::isxdigit(static_cast<unsigned char>(cursor->rest()[0])) != 0) {
    const char digit = cursor->rest()[0];
    value =
        value * 16 + static_cast<char32_t>(digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10);
    ++digits;
    ++cursor->at;
  }
  const bool closed = braces ? digits > 0 && cursor->take("}") : digits == max_digits;
  const bool is_byte = !braces && !four && value >= 0x80;
  if (!closed || is_byte || value > kLastCodePoint || (value >= 0xD800 && value < 0xE000)) {
    return leave_to_oniguruma("this form of a number");
  }
  return RegexMember{value, {}};
}

}  // namespace

char32_t RegexCursor::take_character() {
  const CodePoint point = code_point_at(pattern, at);
  at += point.bytes;
  return point.value;
}

absl::Status leave_to_oniguruma(std::string_view construct) {
  return absl::UnimplementedError(absl::string_view(construct.data(), construct.size()));
}

absl::StatusOr<RegexMember> parse_set_escape(RegexCursor* cursor, bool in_class) {
  const char32_t c = cursor->take_character();
  switch (c) {
    case 'p':
    case 'P':
      return parse_property(cursor, c == 'P', in_class);
    case 's':
    case 'S':
      return of_set(space_set(), c == 'S');
    case 'd':
    case 'D':
      return of_set(digit_set(), c == 'D');
    case 'w':
    case 'W':
      return of_set(in_class ? class_word_set() : word_set(), c == 'W');
    case 'h':
    case 'H':
      return of_set({{'0', '9'}, {'A', 'F'}, {'a', 'f'}}, c == 'H');
    case 'x':
      return parse_hex(cursor, false);
    case 'u':
      return parse_hex(cursor, true);
    default:
      break;
  }
  constexpr std::string_view kLetters = "tnrfvae", kMeanings = "\t\n\r\f\v\a\x1B";
  const size_t letter = c < 0x80 ? kLetters.find(static_cast<char>(c)) : std::string_view::npos;
  if (letter != std::string_view::npos) {
    return RegexMember{static_cast<char32_t>(kMeanings[letter]), {}};
  }
  if (in_class && c == 'b') return RegexMember{U'\b', {}};
  if (c < 0x80 && std::isalnum(static_cast<int>(c)) != 0) return leave_to_oniguruma("an escape");
  return RegexMember{c, {}};
}

namespace {

// Reads [:name:] at the cursor; null if the text is something else.
std::optional<CodePointSet> take_posix_bracket(RegexCursor* cursor) {
  if (!cursor->next_is("[:")) return std::nullopt;
  const size_t close = cursor->rest().find(":]");
  if (close == std::string_view::npos) return std::nullopt;
  std::string_view name = cursor->rest().substr(2, close - 2);
  const bool negated = name.starts_with("^");
  if (negated) name.remove_prefix(1);
  std::optional<CodePointSet> set = posix_set(name);
  if (!set.has_value()) return std::nullopt;
  cursor->at += close + 2;
  return negated ? set->complement() : std::move(set);
}

absl::StatusOr<RegexMember> parse_member(RegexCursor* cursor, int depth) {
  if (auto set = take_posix_bracket(cursor); set.has_value()) return of_set(*set, false);
  if (cursor->next_is("[:")) return leave_to_oniguruma("\"[:\"");
  if (cursor->take("[")) {
    ASSIGN_OR_RETURN(const RegexClass inner, parse_class(cursor, depth + 1));
    return of_set(inner.set, inner.negated);
  }
  if (cursor->take("\\")) {
    if (cursor->done()) return leave_to_oniguruma("a \\ at the end");
    return parse_set_escape(cursor, true);
  }
  return RegexMember{cursor->take_character(), {}};
}

}  // namespace

absl::StatusOr<RegexClass> parse_class(RegexCursor* cursor, int depth) {
  if (depth > kMaxClassDepth) return leave_to_oniguruma("classes nested so deep");
  RegexClass result;
  result.negated = cursor->take("^");
  if (cursor->next_is("]")) return leave_to_oniguruma("\"]\" at the beginning of a class");
  CodePointSet members;
  std::optional<CodePointSet> before;  // The intersection of the operands so far.
  const auto close_operand = [&] {
    before = before.has_value() ? before->intersection(members) : members;
    members = {};
  };
  while (!cursor->take("]")) {
    if (cursor->done()) return leave_to_oniguruma("a class that is not closed");
    if (cursor->take("&&")) {
      close_operand();
      continue;
    }
    ASSIGN_OR_RETURN(const RegexMember member, parse_member(cursor, depth));
    if (!member.character.has_value()) {
      members.add(member.set);
      if (cursor->next_is("-") && !cursor->next_is("-]")) return leave_to_oniguruma("\"-\"");
      continue;
    }
    CodePointSet::Range range = {*member.character, *member.character};
    if (cursor->next_is("-") && !cursor->next_is("-]") && !cursor->next_is("-&&")) {
      cursor->take("-");
      if (cursor->next_is("[")) return leave_to_oniguruma("\"-[\"");
      ASSIGN_OR_RETURN(const RegexMember last, parse_member(cursor, depth));
      if (!last.character.has_value() || *last.character < range.first) {
        return leave_to_oniguruma("a range");
      }
      range.last = *last.character;
      if (cursor->next_is("-") && !cursor->next_is("-]")) return leave_to_oniguruma("\"-\"");
    }
    members.add(range);
  }
  close_operand();
  result.set = *std::move(before);
  return result;
}

}  // namespace lockstep

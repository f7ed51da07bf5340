// SPDX-License-Identifier: Apache-2.0
// The rules are those of jinja2/lexer.py (3.1), without its regular expressions.
#include "coordinator/text/jinja/lexer.h"

#include <algorithm>

#include "coordinator/text/jinja/characters.h"
#include "coordinator/text/unicode.h"

namespace lockstep::jinja {
namespace {

constexpr std::string_view kOperators[] = {"**", "//", "==", "!=", ">=", "<=", "+", "-", "/",
                                           "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                           ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

constexpr size_t kMaxName = 1000;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  absl::StatusOr<std::vector<Token>> run() {
    while (at_ < source_.size()) RETURN_IF_ERROR(root());
    add(Token::Type::kEnd, at_);
    return std::move(tokens_);
  }

 private:
  using Type = Token::Type;

  bool ahead(std::string_view text) const { return source_.substr(at_).starts_with(text); }
  char peek(size_t offset = 0) const {
    return at_ + offset < source_.size() ? source_[at_ + offset] : '\0';
  }

  void move_to(size_t end) {
    line_ += static_cast<int>(std::count(source_.begin() + at_, source_.begin() + end, '\n'));
    at_ = end;
  }
  // The token from here to `end`.
  void add(Type type, size_t end) {
    tokens_.push_back({type, line_, source_.substr(at_, end - at_)});
    move_to(end);
  }
  void skip_blanks() { move_to(blanks_end(source_, at_)); }

  // Text up to the next tag, and that tag's begin.
  absl::Status root() {
    size_t tag = at_;
    while ((tag = source_.find('{', tag)) != std::string_view::npos) {
      const char next = tag + 1 < source_.size() ? source_[tag + 1] : '\0';
      if (next == '{' || next == '%' || next == '#') break;
      ++tag;
    }
    if (tag == std::string_view::npos) {
      add(Type::kData, source_.size());
      return absl::OkStatus();
    }
    const char kind = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    add_data(tag, sign, kind != '{');
    const int begin_line = line_;
    move_to(tag + 2);
    if (sign == '-' || sign == '+') ++at_;
    if (kind == '#') return comment(begin_line);
    if (kind == '{') return code(Type::kOutputBegin, Type::kOutputEnd, begin_line);
    if (const size_t end = raw_tag_end("raw", false); end > 0) return raw(end);
    return code(Type::kBlockBegin, Type::kBlockEnd, begin_line);
  }

  // The text before a tag at `tag`, without what the tag's sign and lstrip_blocks take from it.
  void add_data(size_t tag, char sign, bool may_lstrip) {
    const std::string_view text = source_.substr(at_, tag - at_);
    size_t kept = text.size();
    if (sign == '-') {
      kept = blanks_begin(text);
    } else if (sign != '+' && may_lstrip) {
      const size_t newline = text.rfind('\n');
      const size_t line_begin = newline == std::string_view::npos ? 0 : newline + 1;
      const bool at_line_begin = line_begin > 0 || at_ == 0 || source_[at_ - 1] == '\n';
      if (at_line_begin && blanks_end(text, line_begin) == text.size()) kept = line_begin;
    }
    if (kept > 0) add(Type::kData, at_ + kept);
    move_to(tag);
  }

  // The end of "raw %}" that begins here, or 0. The newline behind goes with `trim` only.
  size_t raw_tag_end(std::string_view word, bool trim) const {
    size_t end = blanks_end(source_, at_);
    if (!source_.substr(end).starts_with(word)) return 0;
    end = blanks_end(source_, end + word.size());
    const std::string_view rest = source_.substr(end);
    if (rest.starts_with("-%}")) return blanks_end(source_, end + 3);
    if (trim && rest.starts_with("+%}")) return end + 3;
    if (!rest.starts_with("%}")) return 0;
    return end + 2 + (trim && rest.substr(2).starts_with("\n") ? 1 : 0);
  }

  absl::Status raw(size_t begin) {
    const int line = line_;
    move_to(begin);
    for (size_t tag = at_; (tag = source_.find("{%", tag)) != std::string_view::npos; tag += 2) {
      const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
      const size_t text_begin = std::exchange(at_, tag + (sign == '-' || sign == '+' ? 3 : 2));
      const size_t end = raw_tag_end("endraw", true);
      at_ = text_begin;
      if (end == 0) continue;
      add_data(tag, sign, true);
      move_to(end);
      return absl::OkStatus();
    }
    return error_at(line, "Missing end of raw directive");
  }

  absl::Status comment(int line) {
    const size_t end = source_.find("#}", at_);
    if (end == std::string_view::npos) return error_at(line, "Missing end of comment tag");
    const char sign = end > at_ ? source_[end - 1] : '\0';
    move_to(end + 2);
    if (sign == '-') skip_blanks();
    if (sign != '-' && sign != '+' && peek() == '\n') move_to(at_ + 1);
    return absl::OkStatus();
  }

  // Whether the tag ends here; moves behind it.
  bool end_of_code(Type end) {
    const std::string_view mark = end == Type::kBlockEnd ? "%}" : "}}";
    const bool minus = peek() == '-';
    const bool plus = peek() == '+' && end == Type::kBlockEnd;
    const size_t sign = minus || plus ? 1 : 0;
    if (!source_.substr(std::min(at_ + sign, source_.size())).starts_with(mark)) return false;
    add(end, at_ + sign + 2);
    if (minus) skip_blanks();
    if (sign == 0 && end == Type::kBlockEnd && peek() == '\n') move_to(at_ + 1);
    return true;
  }

  absl::Status code(Type begin, Type end, int line) {
    tokens_.push_back({begin, line, {}});
    std::string open;  // The closing brackets that are wanted, last one first wanted.
    while (at_ < source_.size()) {
      if (open.empty() && end_of_code(end)) return absl::OkStatus();
      if (const size_t next = blanks_end(source_, at_); next > at_) {
        move_to(next);
      } else {
        RETURN_IF_ERROR(token(&open));
      }
    }
    return absl::OkStatus();  // The parser finds the end missing.
  }

  absl::Status token(std::string* open) {
    const char c = peek();
    if (is_digit(c)) {
      number();
      return absl::OkStatus();
    }
    if (is_name(code_point_at(source_, at_).value)) {
      size_t end = at_;
      while (end < source_.size() && is_name(code_point_at(source_, end).value)) {
        end += code_point_at(source_, end).bytes;
      }
      if (end - at_ > kMaxName) return error_at(line_, "a name of more than 1000 bytes");
      add(Type::kName, end);
      return absl::OkStatus();
    }
    if (c == '"' || c == '\'') {
      size_t end = at_ + 1;
      while (end < source_.size() && source_[end] != c) end += source_[end] == '\\' ? 2 : 1;
      if (end < source_.size()) {
        add(Type::kString, end + 1);
        return absl::OkStatus();
      }
    }
    const auto* found = std::ranges::find_if(kOperators, [&](auto text) { return ahead(text); });
    if (found == std::end(kOperators)) {
      const std::string_view shown = source_.substr(at_, code_point_at(source_, at_).bytes);
      return error_at(line_, fmt::format("unexpected char '{}'", shown));
    }
    RETURN_IF_ERROR(balance(*found, open));
    add(Type::kOperator, at_ + found->size());
    return absl::OkStatus();
  }

  absl::Status balance(std::string_view text, std::string* open) const {
    if (text == "(") open->push_back(')');
    if (text == "[") open->push_back(']');
    if (text == "{") open->push_back('}');
    if (text != ")" && text != "]" && text != "}") return absl::OkStatus();
    if (open->empty()) return error_at(line_, fmt::format("unexpected '{}'", text));
    const char wanted = open->back();
    open->pop_back();
    if (wanted == text[0]) return absl::OkStatus();
    return error_at(line_, fmt::format("unexpected '{}', expected '{}'", text, wanted));
  }

  static bool is_name(char32_t c) {
    if (c < 0x80)
      return is_digit(static_cast<char>(c)) || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_';
    return is_word(c);
  }

  // The end of digits from `begin` that may have single "_" between them; `begin`: none.
  template <typename IsDigit>
  size_t digits_end(size_t begin, IsDigit is_digit_here, bool may_begin_with_line = false) const {
    size_t end = begin;
    while (end < source_.size()) {
      const bool line = source_[end] == '_' && (end > begin || may_begin_with_line);
      const size_t digit = end + (line ? 1 : 0);
      if (digit >= source_.size() || !is_digit_here(source_[digit])) break;
      end = digit + 1;
    }
    return end;
  }

  void number() {
    const size_t whole = digits_end(at_, is_digit);
    size_t end = whole;
    if (at_ == 0 || source_[at_ - 1] != '.') {
      if (end < source_.size() && source_[end] == '.') {
        const size_t fraction = digits_end(end + 1, is_digit);
        if (fraction > end + 1) end = fraction;
      }
      if (end < source_.size() && (source_[end] | 32) == 'e') {
        const size_t sign = end + 1;
        const bool has_sign =
            sign < source_.size() && (source_[sign] == '+' || source_[sign] == '-');
        const size_t exponent = digits_end(sign + has_sign, is_digit);
        if (exponent > sign + has_sign) end = exponent;
      }
    }
    if (end > whole) {
      add(Type::kFloat, end);
    } else {
      add(Type::kInteger, integer_end());
    }
  }

  size_t integer_end() const {
    if (peek() != '0') return digits_end(at_, is_digit);
    const auto prefixed = [&](auto is_digit_here) {
      const size_t end = digits_end(at_ + 2, is_digit_here, true);
      return end > at_ + 2 ? end : at_ + 1;
    };
    switch (peek(1) | 32) {
      case 'b':
        return prefixed([](char c) { return c == '0' || c == '1'; });
      case 'o':
        return prefixed([](char c) { return c >= '0' && c <= '7'; });
      case 'x':
        return prefixed([](char c) { return is_digit(c) || ((c | 32) >= 'a' && (c | 32) <= 'f'); });
      default:
        return digits_end(at_, [](char c) { return c == '0'; });
    }
  }

  std::string_view source_;
  size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

// The digits of \x, \u, \U, or of an octal escape, as a code point; appended to `text`.
absl::Status append_escaped(std::string_view digits, size_t wanted, int base, std::string* text) {
  char32_t value = 0;
  size_t count = 0;
  for (; count < wanted && count < digits.size(); ++count) {
    const char lower = static_cast<char>(digits[count] | 32);
    const int digit = is_digit(digits[count])        ? digits[count] - '0'
                      : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10
                                                     : 99;
    if (digit >= base) break;
    value = value * static_cast<char32_t>(base) + static_cast<char32_t>(digit);
  }
  if (base == 16 && count < wanted) return invalid_argument("truncated escape in a string");
  if (value > 0x10FFFF) return invalid_argument("illegal Unicode character in a string");
  if (value >= 0xD800 && value <= 0xDFFF) {
    return invalid_argument("a surrogate in a string: write the character itself");
  }
  append_utf8(value, text);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Token>> tokenize(std::string_view source) { return Lexer(source).run(); }

std::string normalize_newlines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\n' && i > 0 && source[i - 1] == '\r') continue;
    text.push_back(source[i] == '\r' ? '\n' : source[i]);
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

absl::StatusOr<std::string> unescape(std::string_view quoted) {
  constexpr std::string_view kNames = "\\'\"abfnrtv\n";
  constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
  const std::string_view body = quoted.substr(1, quoted.size() - 2);
  std::string text;
  for (size_t i = 0; i < body.size(); ++i) {
    if (body[i] != '\\') {
      text.push_back(body[i]);
      continue;
    }
    const char name = body[++i];
    const std::string_view rest = body.substr(i + 1);
    if (const size_t known = kNames.find(name); known != std::string_view::npos) {
      if (name != '\n') text.push_back(kMeanings[known]);  // A newline after "\" means nothing.
    } else if (name == 'x' || name == 'u' || name == 'U') {
      const size_t digits = name == 'x' ? 2 : name == 'u' ? 4 : 8;
      RETURN_IF_ERROR(append_escaped(rest, digits, 16, &text));
      i += digits;
    } else if (name >= '0' && name <= '7') {
      RETURN_IF_ERROR(append_escaped(body.substr(i), 3, 8, &text));
      for (int digits = 1; digits < 3 && i + 1 < body.size(); ++digits) {
        if (body[i + 1] < '0' || body[i + 1] > '7') break;
        ++i;
      }
    } else if (name == 'N') {
      return invalid_argument(
          "\\N{{...}} in a string is not supported: write the character itself");
    } else {
      text.push_back('\\');  // Any other escape stays as it is written.
      text.push_back(name);
    }
  }
  return text;
}

absl::Status error_at(int line, std::string_view what) {
  return invalid_argument("line {}: {}", line, one_line(what));
}

}  // namespace lockstep::jinja

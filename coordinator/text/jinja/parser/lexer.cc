// SPDX-License-Identifier: Apache-2.0
// The rules of jinja2/lexer.py (3.1), without its regular expressions.
#include "coordinator/text/jinja/parser/lexer.h"

#include <algorithm>
#include <charconv>

#include "absl/strings/str_replace.h"
#include "coordinator/text/jinja/strings/characters.h"
#include "coordinator/text/unicode/unicode.h"

namespace lockstep::jinja {
namespace {

constexpr std::string_view kOperators[] = {"**", "//", "==", "!=", ">=", "<=", "+", "-", "/",
                                           "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                           ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

constexpr size_t kMaxName = 1000;
constexpr std::string_view kDigits = "0123456789";

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  absl::StatusOr<std::vector<Token>> run() {
    while (at_ < source_.size()) root();
    RETURN_IF_ERROR(error_);
    add(Token::Type::kEnd, at_);
    return std::move(tokens_);
  }

 private:
  using Type = Token::Type;

  // Keeps the first error and ends the lexing.
  void fail(int line, std::string_view what) {
    if (error_.ok()) error_ = error_at(line, what);
    at_ = source_.size();
  }

  // The byte at an offset; 0 after the end.
  char at(size_t offset) const { return offset < source_.size() ? source_[offset] : '\0'; }

  void move_to(size_t end) {
    line_ += static_cast<int>(std::count(source_.begin() + at_, source_.begin() + end, '\n'));
    at_ = end;
  }
  // Adds the token from here to `end`.
  void add(Type type, size_t end) {
    tokens_.push_back({type, line_, source_.substr(at_, end - at_)});
    move_to(end);
  }

  // Reads text up to the next tag, and the beginning of that tag.
  void root() {
    size_t tag = source_.find('{', at_);
    while (tag != std::string_view::npos && at(tag + 1) != '{' && at(tag + 1) != '%' &&
           at(tag + 1) != '#') {
      tag = source_.find('{', tag + 1);
    }
    if (tag == std::string_view::npos) {
      return add(Type::kData, source_.size());
    }
    const char kind = at(tag + 1);
    const char sign = at(tag + 2);
    add_data(tag, sign, kind != '{');
    const int begin_line = line_;
    move_to(tag + 2);
    if (sign == '-' || sign == '+') ++at_;
    if (kind == '#') return comment(begin_line);
    if (kind == '{') return code(Type::kOutputBegin, Type::kOutputEnd, begin_line);
    if (const size_t end = raw_tag_end("raw", false); end > 0) return raw(end);
    return code(Type::kBlockBegin, Type::kBlockEnd, begin_line);
  }

  // Adds the text before a tag at `tag`, without the part that the tag's sign and lstrip_blocks
  // remove.
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

  // If this tag has the name `word`, returns the offset after the tag, else 0. With `trim`, a
  // newline after the tag belongs to it.
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

  void raw(size_t begin) {
    const int line = line_;
    move_to(begin);
    for (size_t tag = at_; (tag = source_.find("{%", tag)) != std::string_view::npos; tag += 2) {
      const char sign = at(tag + 2);
      const size_t text_begin = std::exchange(at_, tag + (sign == '-' || sign == '+' ? 3 : 2));
      const size_t end = raw_tag_end("endraw", true);
      at_ = text_begin;
      if (end == 0) continue;
      add_data(tag, sign, true);
      return move_to(end);
    }
    fail(line, "Missing end of raw directive");
  }

  void comment(int line) {
    const size_t end = source_.find("#}", at_);
    if (end == std::string_view::npos) return fail(line, "Missing end of comment tag");
    const char sign = end > at_ ? source_[end - 1] : '\0';
    move_to(end + 2);
    skip_after_tag(sign, true);
  }

  // After a tag, skips the text that the tag's sign and trim_blocks remove.
  void skip_after_tag(char sign, bool may_trim) {
    if (sign == '-') move_to(blanks_end(source_, at_));
    if (sign != '-' && sign != '+' && may_trim && at(at_) == '\n') move_to(at_ + 1);
  }

  // Returns whether the tag ends here; if so, moves after it.
  bool end_of_code(Type end) {
    const std::string_view mark = end == Type::kBlockEnd ? "%}" : "}}";
    const char sign = at(at_);
    const bool has_sign = sign == '-' || (sign == '+' && end == Type::kBlockEnd);
    const size_t mark_begin = at_ + (has_sign ? 1 : 0);
    if (source_.compare(mark_begin, 2, mark) != 0) return false;
    add(end, mark_begin + 2);
    skip_after_tag(has_sign ? sign : '\0', end == Type::kBlockEnd);
    return true;
  }

  void code(Type begin, Type end, int line) {
    tokens_.push_back({begin, line, {}});
    std::string open;  // The closing brackets still to come, the next one last.
    while (at_ < source_.size()) {
      if (open.empty() && end_of_code(end)) return;
      if (const size_t next = blanks_end(source_, at_); next > at_) {
        move_to(next);
      } else {
        token(&open);
      }
    }
  }

  void token(std::string* open) {
    const char c = at(at_);
    if (kDigits.find(c) != std::string_view::npos) return number();
    size_t end = at_;
    while (end < source_.size() && is_name(code_point_at(source_, end).value)) {
      end += code_point_at(source_, end).bytes;
    }
    if (end > at_) {
      if (end - at_ > kMaxName) return fail(line_, "a name of more than 1000 bytes");
      return add(Type::kName, end);
    }
    if (c == '"' || c == '\'') {
      ++end;
      while (end < source_.size() && source_[end] != c) end += source_[end] == '\\' ? 2 : 1;
      if (end < source_.size()) return add(Type::kString, end + 1);
    }
    const auto* found = std::ranges::find_if(
        kOperators, [&](auto text) { return source_.substr(at_).starts_with(text); });
    if (found == std::end(kOperators)) {
      const std::string_view shown = source_.substr(at_, code_point_at(source_, at_).bytes);
      return fail(line_, fmt::format("unexpected char '{}'", shown));
    }
    balance(*found, open);
    if (error_.ok()) add(Type::kOperator, at_ + found->size());
  }

  void balance(std::string_view text, std::string* open) {
    constexpr std::string_view kBrackets = "()[]{}";
    const size_t bracket = kBrackets.find(text);
    if (bracket == std::string_view::npos) return;
    if (bracket % 2 == 0) return open->push_back(kBrackets[bracket + 1]);
    if (open->empty()) return fail(line_, fmt::format("unexpected '{}'", text));
    const char wanted = open->back();
    open->pop_back();
    if (wanted != text[0]) fail(line_, fmt::format("unexpected '{}', expected '{}'", text, wanted));
  }

  static bool is_name(char32_t c) {
    if (c >= 0x80) return is_word(c);
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_';
  }

  // The end of the digits from `begin`, which may have single "_" between them; `begin` if there
  // are none.
  size_t digits_end(size_t begin, std::string_view digits, bool may_begin_with_line = false) const {
    size_t end = begin;
    while (true) {
      const bool line = at(end) == '_' && (end > begin || may_begin_with_line);
      const size_t first = end + (line ? 1 : 0);
      const size_t next = std::min(source_.find_first_not_of(digits, first), source_.size());
      if (next <= first) return end;
      end = next;
    }
  }

  void number() {
    const size_t whole = digits_end(at_, kDigits);
    size_t end = whole;
    const bool may_be_float = at_ == 0 || source_[at_ - 1] != '.';
    if (may_be_float && at(end) == '.') {
      const size_t fraction = digits_end(end + 1, kDigits);
      if (fraction > end + 1) end = fraction;
    }
    if (may_be_float && (at(end) | 32) == 'e') {
      const size_t first = end + (at(end + 1) == '+' || at(end + 1) == '-' ? 2 : 1);
      const size_t exponent = digits_end(first, kDigits);
      if (exponent > first) end = exponent;
    }
    if (end > whole) {
      add(Type::kFloat, end);
    } else {
      add(Type::kInteger, integer_end());
    }
  }

  size_t integer_end() const {
    if (at(at_) != '0') return digits_end(at_, kDigits);
    const char letter = static_cast<char>(at(at_ + 1) | 32);
    const std::string_view digits = letter == 'x'   ? "0123456789abcdefABCDEF"
                                    : letter == 'o' ? "01234567"
                                    : letter == 'b' ? "01"
                                                    : "";
    const size_t end = digits_end(at_ + 2, digits, true);
    return end > at_ + 2 ? end : digits_end(at_, "0");
  }

  std::string_view source_;
  absl::Status error_;
  size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

// Appends the code point of \x, \u, \U, or of an octal escape; returns the number of digits.
absl::StatusOr<size_t> append_escaped(std::string_view digits, size_t max, int base,
                                      std::string* text) {
  digits = digits.substr(0, max);
  uint32_t value = 0;
  const char* end = digits.data() + digits.size();
  const char* parsed = std::from_chars(digits.data(), end, value, base).ptr;
  const auto count = static_cast<size_t>(parsed - digits.data());
  if (base == 16 && count < max) return invalid_argument("truncated escape in a string");
  if (value > 0x10FFFF) return invalid_argument("illegal Unicode character in a string");
  if (value >= 0xD800 && value <= 0xDFFF) {
    return invalid_argument("a surrogate in a string: write the character itself");
  }
  append_utf8(value, text);
  return count;
}

}  // namespace

absl::StatusOr<std::vector<Token>> tokenize(std::string_view source) { return Lexer(source).run(); }

std::string normalize_newlines(const std::string& source) {
  std::string text = absl::StrReplaceAll(source, {{"\r\n", "\n"}, {"\r", "\n"}});
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
    if (const size_t known = kNames.find(name); known != std::string_view::npos) {
      if (name != '\n') text.push_back(kMeanings[known]);  // A newline after "\" is dropped.
    } else if (name == 'x' || name == 'u' || name == 'U') {
      const size_t digits = name == 'x' ? 2 : name == 'u' ? 4 : 8;
      RETURN_IF_ERROR(append_escaped(body.substr(i + 1), digits, 16, &text).status());
      i += digits;
    } else if (name >= '0' && name <= '7') {
      ASSIGN_OR_RETURN(const size_t digits, append_escaped(body.substr(i), 3, 8, &text));
      i += digits - 1;
    } else if (name == 'N') {
      return invalid_argument(
          "\\N{{...}} in a string is not supported: write the character itself");
    } else {
      text.push_back('\\');  // Any other escape stays unchanged.
      text.push_back(name);
    }
  }
  return text;
}

absl::Status error_at(int line, std::string_view what) {
  return invalid_argument("line {}: {}", line, one_line(what));
}

}  // namespace lockstep::jinja

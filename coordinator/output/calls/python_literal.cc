// SPDX-License-Identifier: Apache-2.0
#include "coordinator/output/calls/python_literal.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "coordinator/output/calls/json_text.h"
#include "coordinator/text/unicode/unicode.h"

namespace lockstep {
namespace {

constexpr int kMaxDepth = 64;

bool is_digit(char c) { return '0' <= c && c <= '9'; }

constexpr std::pair<std::string_view, std::string_view> kWords[] = {
    {"True", "true"}, {"False", "false"}, {"None", "null"},
    {"true", "true"}, {"false", "false"}, {"null", "null"}};

// Reads literals from the front of a text and writes them as JSON. Each read returns false if the
// text is not such a literal.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  bool value(std::string* json) {
    skip_blanks();
    if (text_.empty() || ++depth_ > kMaxDepth) return false;
    const char c = text_.front();
    const bool read = c == '"' || c == '\''                             ? string(json)
                      : c == '['                                        ? list(']', json)
                      : c == '('                                        ? list(')', json)
                      : c == '{'                                        ? dict(json)
                      : is_digit(c) || c == '-' || c == '+' || c == '.' ? number(json)
                                                                        : word(json);
    --depth_;
    skip_blanks();
    return read;
  }

  bool call(PythonCall* call) {
    call->name = name();
    if (call->name.empty() || !take('(')) return false;
    std::string arguments = "{";
    for (skip_blanks(); !take(')');) {
      const std::string key = name();
      if (key.empty() || !take('=')) return false;
      arguments += (arguments.size() > 1 ? ", " : "") + json_string(key) + ": ";
      if (!value(&arguments)) return false;
      if (!take(',') && (text_.empty() || text_.front() != ')')) return false;
    }
    call->arguments = arguments + "}";
    return true;
  }

  bool is_over() {
    skip_blanks();
    return text_.empty();
  }

 private:
  void skip_blanks() {
    while (!text_.empty() && is_blank(text_.front())) text_.remove_prefix(1);
  }

  bool take(char c) {
    skip_blanks();
    if (text_.empty() || text_.front() != c) return false;
    text_.remove_prefix(1);
    skip_blanks();
    return true;
  }

  std::string name() {
    skip_blanks();
    const auto end = std::ranges::find_if_not(text_, is_of_name);
    std::string name(text_.begin(), end);
    text_.remove_prefix(name.size());
    return name.empty() || is_digit(name[0]) ? "" : name;
  }

  bool word(std::string* json) {
    for (const auto& [python, written] : kWords) {
      if (!text_.starts_with(python)) continue;
      if (text_.size() > python.size() && is_of_name(text_[python.size()])) return false;
      text_.remove_prefix(python.size());
      *json += written;
      return true;
    }
    return false;
  }

  bool number(std::string* json) {
    std::string sign, digits;
    while (!text_.empty() && (text_.front() == '-' || text_.front() == '+')) {
      if (text_.front() == '-') sign = sign.empty() ? "-" : "";
      text_.remove_prefix(1);
      skip_blanks();
    }
    for (; !text_.empty(); text_.remove_prefix(1)) {
      const char c = text_.front();
      const bool is_signed = (c == '-' || c == '+') && !digits.empty() && digits.back() == 'e';
      if (c == '_') continue;
      if (!is_digit(c) && c != '.' && c != 'e' && c != 'E' && !is_signed) break;
      digits += c == 'E' ? 'e' : c;
    }
    if (std::ranges::none_of(digits, is_digit)) return false;
    if (digits.starts_with('.')) digits.insert(0, "0");
    const size_t zeros = digits.find_first_not_of('0');
    const bool is_whole = digits.find_first_of(".e") == std::string::npos;
    if (is_whole && zeros != 0) digits.erase(0, std::min(zeros, digits.size() - 1));
    if (const size_t dot = digits.find('.'); dot != std::string::npos) {
      if (dot + 1 == digits.size() || digits[dot + 1] == 'e') digits.insert(dot + 1, "0");
    }
    char* end = nullptr;
    const double read = std::strtod(digits.c_str(), &end);
    if (*end != '\0' || (!is_whole && !std::isfinite(read))) return false;
    *json += sign + digits;
    return text_.empty() || !is_of_name(text_.front());
  }

  bool list(char end, std::string* json) {
    text_.remove_prefix(1);
    std::string items = "[";
    bool has_comma = false;
    for (skip_blanks(); !take(end);) {
      if (items.size() > 1) items += ", ";
      if (!value(&items)) return false;
      const bool more = take(',');
      has_comma |= more;
      if (!more && (text_.empty() || text_.front() != end)) return false;
    }
    const bool is_plain = end == ')' && !has_comma && items.size() > 1;  // (1) is the same as 1.
    *json += is_plain ? items.substr(1) : items + "]";
    return true;
  }

  bool dict(std::string* json) {
    text_.remove_prefix(1);
    *json += '{';
    bool is_first = true;
    for (skip_blanks(); !take('}'); is_first = false) {
      // Python refuses lists and dicts as keys. Tuples are refused here, too: each level of nested
      // keys would double the backslashes in the JSON of the level below.
      if (text_.empty() || std::string_view("[({").find(text_.front()) != std::string_view::npos) {
        return false;
      }
      std::string key;
      if (!value(&key)) return false;
      if (!is_first) *json += ", ";
      *json += key.starts_with('"') ? key : json_string(key);
      *json += ": ";
      if (!take(':') || !value(json)) return false;
      if (!take(',') && (text_.empty() || text_.front() != '}')) return false;
    }
    *json += '}';
    return true;
  }

  bool string(std::string* json) {
    const std::string_view quotes(text_.data(), 1);
    const std::string three(3, quotes[0]);
    const std::string_view mark = text_.starts_with(three) ? std::string_view(three) : quotes;
    text_.remove_prefix(mark.size());
    std::string content;
    while (!text_.starts_with(mark)) {
      if (text_.empty()) return false;
      if (text_.front() == '\\') {
        if (!escape(&content)) return false;
      } else {
        content += text_.front();
        text_.remove_prefix(1);
      }
    }
    text_.remove_prefix(mark.size());
    *json += json_string(content);
    return true;
  }

  // An unknown escape keeps its backslash, as in Python.
  bool escape(std::string* content) {
    constexpr std::string_view kLetters = "\\'\"abfnrtv", kBytes = "\\'\"\a\b\f\n\r\t\v";
    text_.remove_prefix(1);
    if (text_.empty()) return false;
    const char c = text_.front();
    text_.remove_prefix(1);
    if (const size_t found = kLetters.find(c); found != std::string_view::npos) {
      *content += kBytes[found];
    } else if (c == 'x' || c == 'u' || c == 'U') {
      return code_point(c == 'x' ? 2 : c == 'u' ? 4 : 8, content);
    } else if (c != '\n') {
      (*content += '\\') += c;
    }
    return true;
  }

  bool code_point(size_t digits, std::string* content) {
    uint32_t point = 0;
    if (!hexadecimal(digits, &point)) return false;
    uint32_t low = 0;  // A surrogate pair, as JSON writes characters above 16 bits.
    if (digits == 4 && 0xd800 <= point && point < 0xdc00 && text_.starts_with("\\u")) {
      text_.remove_prefix(2);
      if (!hexadecimal(4, &low)) return false;
      point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
    }
    if (point > 0x10ffff || (0xd800 <= point && point < 0xe000)) return false;
    append_utf8(point, content);
    return true;
  }

  bool hexadecimal(size_t digits, uint32_t* number) {
    const std::string text(text_.substr(0, digits));
    const auto is_hex = [](unsigned char c) { return std::isxdigit(c) != 0; };
    if (text.size() < digits || !std::ranges::all_of(text, is_hex)) return false;
    *number = static_cast<uint32_t>(std::strtoul(text.c_str(), nullptr, 16));
    text_.remove_prefix(digits);
    return true;
  }

  std::string_view text_;
  int depth_ = 0;
};

}  // namespace

bool is_of_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
}

std::optional<std::string> json_of_python(std::string_view text) {
  Reader reader(text);
  std::string json;
  if (!reader.value(&json) || !reader.is_over()) return std::nullopt;
  return json;
}

std::optional<PythonCall> parse_python_call(std::string_view text) {
  Reader reader(text);
  PythonCall call;
  if (!reader.call(&call) || !reader.is_over()) return std::nullopt;
  return call;
}

int PythonSpan::push(char c) {
  if (escaped_) {
    escaped_ = false;
    return depth_;
  }
  switch (state_) {
    case State::kOpened:
      if (c == quote_) {
        state_ = State::kOpenedTwice;
        return depth_;
      }
      state_ = State::kSingle;
      break;
    case State::kOpenedTwice:
      state_ = c == quote_ ? State::kTriple : State::kPlain;
      if (state_ == State::kTriple) return depth_;
      break;
    default:
      break;
  }
  if (state_ == State::kPlain) return in_plain(c);
  escaped_ = c == '\\';
  closing_ = c == quote_ ? closing_ + 1 : 0;
  if (closing_ == (state_ == State::kTriple ? 3 : 1)) {
    state_ = State::kPlain;
    closing_ = 0;
  }
  return depth_;
}

int PythonSpan::in_plain(char c) {
  if (c == '"' || c == '\'') {
    quote_ = c;
    state_ = State::kOpened;
  } else if (c == '(' || c == '[' || c == '{') {
    ++depth_;
  } else if (c == ')' || c == ']' || c == '}') {
    --depth_;
  }
  return depth_;
}

}  // namespace lockstep

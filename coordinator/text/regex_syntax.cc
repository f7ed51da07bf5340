// SPDX-License-Identifier: Apache-2.0
// A walk over the pattern. Properties are completed by the code points that PCRE2's tables lack;
// \s, \w and \d, which the two engines define differently, become classes; negations inside a class
// become ranges.
#include "coordinator/text/regex_syntax.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <tuple>
#include <vector>

#include "coordinator/text/unicode.h"

namespace lockstep {
namespace {

// A negation inside a class is up to 20 KiB, and PCRE2 compiles no more than some ten of them.
constexpr size_t kMaxRewrittenBytes = 256 << 10;

// A set as the inside of a PCRE2 class.
std::string range_text(char32_t first, char32_t last) {
  if (first == last) return fmt::format("\\x{{{:X}}}", static_cast<uint32_t>(first));
  return fmt::format("\\x{{{:X}}}-\\x{{{:X}}}", static_cast<uint32_t>(first),
                     static_cast<uint32_t>(last));
}

struct Stretch {
  char32_t first;
  char32_t last;
};

// All code points but surrogates, in stretches that every set here has all or nothing of.
std::vector<Stretch> make_stretches() {
  constexpr char32_t kEnd = 0x110000;
  const auto kind_of = [](char32_t c) {
    return std::tuple(category_of(c), is_space(c), is_pattern_word(c));
  };
  std::vector<Stretch> stretches;
  auto before = kind_of(0);
  for (char32_t c = 0; c < kEnd; ++c) {
    if (c == 0xD800) c = 0xE000;
    const auto kind = kind_of(c);
    if (stretches.empty() || c == 0xE000 || kind != before) stretches.push_back({c, c});
    stretches.back().last = c;
    before = kind;
  }
  return stretches;
}

const std::vector<Stretch>& all_stretches() {
  static const std::vector<Stretch> stretches = make_stretches();
  return stretches;
}

template <typename Predicate>
std::string ranges_of(Predicate is_member) {
  const std::vector<Stretch>& stretches = all_stretches();
  std::string text;
  for (size_t i = 0; i < stretches.size(); ++i) {
    if (!is_member(stretches[i].first)) continue;
    const char32_t first = stretches[i].first;
    while (i + 1 < stretches.size() && stretches[i + 1].first == stretches[i].last + 1 &&
           is_member(stretches[i + 1].first)) {
      ++i;
    }
    text += range_text(first, stretches[i].last);
  }
  return text;
}

// The members of a category: PCRE2's own, and those that it does not know yet.
std::string category_text(std::string_view name) {
  std::string text = fmt::format("\\p{{{}}}", name);
  for (const CategoryRange& range : assigned_after_unicode_14()) {
    if (is_in(range.category, name)) text += range_text(range.first, range.last);
  }
  return text;
}

class Rewriter {
 public:
  explicit Rewriter(std::string_view pattern) : in_(pattern) {}

  absl::StatusOr<std::string> run() {
    while (at_ < in_.size()) {
      RETURN_IF_ERROR(in_class_ ? class_item() : item());
      if (out_.size() <= kMaxRewrittenBytes) continue;
      return invalid_argument(
          "pattern \"{:.80}\": its sets take more than {} bytes when written out; it needs fewer "
          "negations inside of classes",
          in_, kMaxRewrittenBytes);
    }
    if (in_class_) return refuse("a class that is not closed");
    return std::move(out_);
  }

 private:
  absl::Status refuse(std::string_view construct) const {
    return invalid_argument("pattern \"{:.80}\": {} is not supported", in_, construct);
  }

  bool next_is(std::string_view wanted) const { return in_.substr(at_).starts_with(wanted); }

  void copy(size_t bytes) {
    out_ += in_.substr(at_, bytes);
    at_ += bytes;
  }

  absl::Status item() {
    switch (in_[at_]) {
      case '\\':
        return escape();
      case '[':
        return open_class();
      case '(':
        return group();
      case '{':
        return repeat();
      default:
        copy(1);
        return absl::OkStatus();
    }
  }

  // Plain, look-around and atomic groups and caseless ones mean the same in both engines.
  absl::Status group() {
    static constexpr std::array<std::string_view, 7> kKnown = {
        "(?:", "(?=", "(?!", "(?i:", "(?<=", "(?<!", "(?>"};
    for (std::string_view opening : kKnown) {
      if (next_is(opening)) {
        copy(opening.size());
        return absl::OkStatus();
      }
    }
    if (next_is("(?") || next_is("(*")) return refuse(fmt::format("{:.4}", in_.substr(at_)));
    copy(1);
    return absl::OkStatus();
  }

  // {n}, {n,} and {n,m}; Oniguruma reads "{,m}" and a "+" after it in its own way.
  absl::Status repeat() {
    const size_t close = in_.find('}', at_);
    if (close == std::string_view::npos) return refuse("a single {");
    const std::string_view inside = in_.substr(at_ + 1, close - at_ - 1);
    const size_t digits = std::min(inside.find_first_not_of("0123456789"), inside.size());
    const std::string_view rest = inside.substr(digits);
    const bool is_count = digits > 0 && (rest.empty() || rest[0] == ',') &&
                          rest.find_first_not_of("0123456789,") == std::string_view::npos &&
                          std::count(rest.begin(), rest.end(), ',') <= 1;
    if (!is_count) return refuse(fmt::format("\"{{{:.20}}}\"", inside));
    copy(close + 1 - at_);
    if (next_is("+")) return refuse("\"}+\"");
    return absl::OkStatus();
  }

  absl::Status open_class() {
    in_class_ = true;
    copy(1);
    if (next_is("^")) copy(1);
    if (next_is("]")) return refuse("\"]\" at the beginning of a class");
    return absl::OkStatus();
  }

  absl::Status class_item() {
    if (next_is("&&")) return refuse("\"&&\" in a class");
    switch (in_[at_]) {
      case '[':
        return refuse("a class in a class");
      case ']':
        in_class_ = false;
        copy(1);
        return absl::OkStatus();
      case '\\':
        return escape();
      default:
        copy(1);
        return absl::OkStatus();
    }
  }

  // Appends a set given by its members' text and, for a negation inside a class, its complement.
  template <typename Predicate>
  void set(bool negated, const std::string& members, Predicate is_member) {
    if (!in_class_) {
      out_ += negated ? "[^" : "[";
      out_ += members + "]";
    } else if (!negated) {
      out_ += members;
    } else {
      out_ += ranges_of([&](char32_t c) { return !is_member(c); });
    }
  }

  absl::Status property() {
    const bool upper = in_[at_ + 1] == 'P';
    size_t end = at_ + 3;
    std::string_view name = in_.substr(at_ + 2, 1);
    if (name == "{") {
      end = in_.find('}', at_);
      if (end == std::string_view::npos) return refuse("\\p without }");
      name = in_.substr(at_ + 3, end - at_ - 3);
      ++end;
    } else {
      return refuse("\\p without {");
    }
    const bool caret = name.starts_with("^");
    if (caret) name.remove_prefix(1);
    const bool negated = upper != caret;
    if (name == "Han") {
      // Oniguruma's is the script alone, without the extensions that PCRE2 counts in.
      if (negated && in_class_) return refuse("\\P{Han} in a class");
      set(negated,
          "\\p{sc:Han}" + range_text(0x2B739, 0x2B739) + range_text(0x2EBF0, 0x2EE5D) +
              range_text(0x31350, 0x323AF),
          [](char32_t) { return false; });
    } else if (is_category_name(name) && !name.starts_with("C")) {
      set(negated, category_text(name), [&](char32_t c) { return has_category(c, name); });
    } else {
      return refuse(fmt::format("\\p{{{:.20}}}", name));
    }
    at_ = end;
    return absl::OkStatus();
  }

  absl::Status escape() {
    if (at_ + 1 == in_.size()) return refuse("a \\ at the end");
    const char c = in_[at_ + 1];
    if (c == 'p' || c == 'P') return property();
    static const std::string kSpaces = ranges_of(is_space);
    static const std::string kDigits = category_text("Nd");
    static const std::string kWord = category_text("L") + category_text("M") + kDigits +
                                     category_text("Nl") + category_text("Pc") +
                                     "\\x{24B6}-\\x{24E9}\\x{1F130}-"
                                     "\\x{1F149}\\x{1F150}-\\x{1F169}\\x{1F170}-\\x{1F189}";
    if (c == 's' || c == 'S') {
      set(c == 'S', kSpaces, is_space);
    } else if (c == 'd' || c == 'D') {
      set(c == 'D', kDigits, [](char32_t v) { return category_of(v) == Category::kNd; });
    } else if (c == 'w' || c == 'W') {
      // Outside a class Oniguruma counts six numbers of Latin-1 in as well.
      set(c == 'W', in_class_ ? kWord : kWord + "\\xB2\\xB3\\xB9\\xBC-\\xBE", is_pattern_word);
    } else if (c == 'x') {
      return hex_escape();
    } else if (std::string_view("rntfv").find(c) != std::string_view::npos) {
      out_ += c == 'v' ? "\\x0B" : std::string("\\") + c;  // PCRE2's \v is a set.
    } else if (static_cast<unsigned char>(c) < 0x80 &&
               !std::isalnum(static_cast<unsigned char>(c))) {
      out_ += in_.substr(at_, 2);
    } else {
      return refuse(fmt::format("\\{:.1}", in_.substr(at_ + 1)));
    }
    at_ += 2;
    return absl::OkStatus();
  }

  // \xHH below 80 (above, Oniguruma means a byte) or \x{H...}.
  absl::Status hex_escape() {
    const bool braces = in_.substr(at_ + 2).starts_with("{");
    const size_t first = at_ + (braces ? 3 : 2);
    size_t end = first;
    while (end < in_.size() && std::isxdigit(static_cast<unsigned char>(in_[end]))) ++end;
    const bool closed = braces ? end > first && in_.substr(end).starts_with("}")
                               : end >= first + 2 && in_[first] < '8';
    if (!closed) return refuse("this form of \\x");
    copy((braces ? end + 1 : first + 2) - at_);
    return absl::OkStatus();
  }

  std::string_view in_;
  size_t at_ = 0;
  std::string out_;
  bool in_class_ = false;
};

}  // namespace

absl::StatusOr<std::string> to_pcre2(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    return invalid_argument("a pattern of {} bytes; the limit is {}", pattern.size(),
                            kMaxPatternBytes);
  }
  return Rewriter(pattern).run();
}

}  // namespace lockstep

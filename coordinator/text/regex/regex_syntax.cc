// SPDX-License-Identifier: Apache-2.0
// Recursive descent over alternatives, sequences, repeats and atoms. Anchors become looks; letters
// whose case is ignored become the sets and alternatives of their variants.
#include "coordinator/text/regex/regex_syntax.h"

#include <cctype>
#include <string>
#include <utility>

#include "coordinator/text/regex/regex_class.h"
#include "coordinator/text/unicode/unicode.h"
#include "coordinator/text/unicode/unicode_properties.h"

namespace lockstep {
namespace {

constexpr int kMaxGroupDepth = 100;
constexpr size_t kMaxVariants = 2000;  // Max nodes for letters whose case is ignored.
constexpr int kMaxRepeats = 1000;

struct Options {
  bool ignore_case = false;
  bool dot_is_all = false;
  bool extended = false;
};

CodePointSet any_but_newline() { return CodePointSet{{'\n', '\n'}}.complement(); }

class Parser {
 public:
  explicit Parser(std::string_view pattern) : cursor_{pattern} {}

  absl::StatusOr<RegexNode> run() {
    ASSIGN_OR_RETURN(RegexNode node, alternatives(Options(), 0));
    if (!cursor_.done()) return leave_to_oniguruma("a single )");
    return node;
  }

 private:
  // Reads up to the end, or up to a ")", which is not consumed.
  absl::StatusOr<RegexNode> alternatives(Options options, int depth) {
    if (depth > kMaxGroupDepth) return leave_to_oniguruma("groups nested so deep");
    std::vector<RegexNode> branches;
    do {
      ASSIGN_OR_RETURN(RegexNode branch, sequence(options, depth));
      branches.push_back(std::move(branch));
    } while (cursor_.take("|"));
    return alternate_node(std::move(branches));
  }

  absl::StatusOr<RegexNode> sequence(Options options, int depth) {
    std::vector<RegexNode> items;
    std::vector<char32_t> letters;  // The last letters; variants may span several.
    while (!cursor_.done() && !cursor_.next_is("|") && !cursor_.next_is(")")) {
      if (options.extended && skip_blank()) continue;
      if (cursor_.next_is("(?#")) {
        cursor_.at += std::min(cursor_.rest().find(')'), cursor_.rest().size() - 1) + 1;
        continue;
      }
      RegexNode item;
      std::optional<char32_t> letter;
      bool to_the_end = false;
      RETURN_IF_ERROR(atom(options, depth, &item, &letter, &to_the_end));
      while (options.extended && skip_blank()) {
      }
      const bool repeated = is_repeat_next();
      if (letter.has_value() && !repeated) {
        letters.push_back(*letter);
        continue;
      }
      RETURN_IF_ERROR(add_letters(options, &letters, &items));
      if (letter.has_value()) {
        letters = {*letter};
        std::vector<RegexNode> alone;
        RETURN_IF_ERROR(add_letters(options, &letters, &alone));
        item = sequence_node(std::move(alone));
      }
      if (!to_the_end) RETURN_IF_ERROR(repeats(options, &item));
      items.push_back(std::move(item));
    }
    RETURN_IF_ERROR(add_letters(options, &letters, &items));
    return sequence_node(std::move(items));
  }

  // Skips text that (?x) ignores: a blank, or a comment up to the end of its line.
  bool skip_blank() {
    if (cursor_.done()) return false;
    const char c = cursor_.rest()[0];
    if (c == '#') {
      cursor_.at += std::min(cursor_.rest().find('\n'), cursor_.rest().size());
      return true;
    }
    if (c != ' ' && (c < '\t' || c > '\r')) return false;
    ++cursor_.at;
    return true;
  }

  bool is_repeat_next() const {
    return cursor_.next_is("*") || cursor_.next_is("+") || cursor_.next_is("?") ||
           cursor_.next_is("{");
  }

  // Reads one item, or a letter. `to_the_end`: the item is a group of options like (?i), so it
  // contains the rest of the group around it.
  absl::Status atom(Options options, int depth, RegexNode* item, std::optional<char32_t>* letter,
                    bool* to_the_end) {
    if (cursor_.take("\\")) return escape(letter, item);
    if (cursor_.take("[")) return char_class(options, item);
    if (cursor_.take("(")) return group(options, depth, item, to_the_end);
    if (cursor_.take(".")) {
      *item = set_node(options.dot_is_all ? CodePointSet::all() : any_but_newline());
    } else if (cursor_.take("^")) {
      *item = line_begin_node();
    } else if (cursor_.take("$")) {
      *item = line_end_node();
    } else if (is_repeat_next()) {
      return leave_to_oniguruma("a repeat of nothing");
    } else {
      *letter = cursor_.take_character();
    }
    return absl::OkStatus();
  }

  absl::Status escape(std::optional<char32_t>* letter, RegexNode* item) {
    if (cursor_.done()) return leave_to_oniguruma("a \\ at the end");
    const char kind = cursor_.rest()[0];
    ++cursor_.at;
    switch (kind) {
      case 'b':
      case 'B':
        *item = word_border_node(kind == 'B');
        return absl::OkStatus();
      case 'A':
        *item = text_begin_node();
        return absl::OkStatus();
      case 'z':
        *item = text_end_node();
        return absl::OkStatus();
      case 'Z':
        *item = last_line_end_node();
        return absl::OkStatus();
      case 'R':
        *item = line_break_node();
        return absl::OkStatus();
      case 'N':
        *item = set_node(any_but_newline());
        return absl::OkStatus();
      case 'O':
        *item = set_node(CodePointSet::all());
        return absl::OkStatus();
      default:
        break;
    }
    --cursor_.at;
    ASSIGN_OR_RETURN(RegexMember member, parse_set_escape(&cursor_, false));
    *letter = member.character;
    *item = set_node(std::move(member.set));
    return absl::OkStatus();
  }

  absl::Status char_class(Options options, RegexNode* item) {
    ASSIGN_OR_RETURN(RegexClass parsed, parse_class(&cursor_, 0));
    std::vector<RegexNode> choices(1);
    if (options.ignore_case) {
      for (const std::vector<char32_t>& text : add_case_variants(&parsed.set)) {
        if (parsed.negated) break;
        std::vector<RegexNode> variant;
        std::vector<char32_t> letters = text;
        RETURN_IF_ERROR(add_letters(options, &letters, &variant));
        choices.push_back(sequence_node(std::move(variant)));
      }
    }
    choices[0] = set_node(parsed.negated ? parsed.set.complement() : std::move(parsed.set));
    *item = alternate_node(std::move(choices));
    return absl::OkStatus();
  }

  absl::Status group(Options options, int depth, RegexNode* item, bool* to_the_end) {
    enum class Wrap { kNone, kLook, kAtomic } wrap = Wrap::kNone;
    bool behind = false, negated = false;
    if (cursor_.take("?")) {
      if (cursor_.take("<=") || cursor_.take("<!")) {
        wrap = Wrap::kLook;
        behind = true;
        negated = cursor_.pattern[cursor_.at - 1] == '!';
      } else if (cursor_.take("=") || cursor_.take("!")) {
        wrap = Wrap::kLook;
        negated = cursor_.pattern[cursor_.at - 1] == '!';
      } else if (cursor_.take(">")) {
        wrap = Wrap::kAtomic;
      } else if (cursor_.next_is("<") || cursor_.next_is("'")) {
        RETURN_IF_ERROR(skip_name());
      } else {
        RETURN_IF_ERROR(read_options(&options));
        // The options of "(?i)" apply to the rest of its group, including later alternatives.
        *to_the_end = cursor_.take(")");
        if (!*to_the_end && !cursor_.take(":")) return leave_to_oniguruma("a group of options");
      }
    } else if (cursor_.next_is("*")) {
      return leave_to_oniguruma("(*");
    }
    ASSIGN_OR_RETURN(RegexNode inner, alternatives(options, depth + 1));
    if (!*to_the_end && !cursor_.take(")")) return leave_to_oniguruma("a group without )");
    *item = wrap == Wrap::kLook     ? look_node(std::move(inner), behind, negated)
            : wrap == Wrap::kAtomic ? atomic_node(std::move(inner))
                                    : std::move(inner);
    return absl::OkStatus();
  }

  // Skips <name> or 'name': nothing refers to it.
  absl::Status skip_name() {
    const char close = cursor_.next_is("<") ? '>' : '\'';
    const size_t end = cursor_.rest().find(close, 1);
    if (end == std::string_view::npos) return leave_to_oniguruma("a name");
    cursor_.at += end + 1;
    return absl::OkStatus();
  }

  // Reads i, m and x, and after "-" the same to turn them off.
  absl::Status read_options(Options* options) {
    bool value = true;
    for (; !cursor_.done() && !cursor_.next_is(")") && !cursor_.next_is(":"); ++cursor_.at) {
      switch (cursor_.rest()[0]) {
        case '-':
          value = false;
          break;
        case 'i':
          options->ignore_case = value;
          break;
        case 'm':
          options->dot_is_all = value;
          break;
        case 'x':
          options->extended = value;
          break;
        default:
          return leave_to_oniguruma("an option");
      }
    }
    return absl::OkStatus();
  }

  absl::Status repeats(Options options, RegexNode* item) {
    for (bool first = true; is_repeat_next(); first = false) {
      RegexNode repeat;
      repeat.kind = RegexNode::Kind::kRepeat;
      const bool is_count = cursor_.next_is("{");
      bool possessive = false;
      if (is_count) {
        RETURN_IF_ERROR(read_counts(&repeat));
        // "{n}?" is an optional repeat; a "+" after counts is another repeat.
        repeat.lazy = repeat.min != repeat.max && cursor_.take("?");
      } else {
        repeat.min = cursor_.next_is("+") ? 1 : 0;
        repeat.max = cursor_.next_is("?") ? 1 : RegexNode::kNoMax;
        ++cursor_.at;
        repeat.lazy = cursor_.take("?");
        possessive = !repeat.lazy && cursor_.take("+");
      }
      // Oniguruma rewrites some repeats of repeats.
      if (!first && (repeat.lazy || possessive || item->lazy)) {
        return leave_to_oniguruma("a repeat of a repeat");
      }
      repeat.children.push_back(std::move(*item));
      *item = possessive ? atomic_node(std::move(repeat)) : std::move(repeat);
      while (options.extended && skip_blank()) {
      }
    }
    return absl::OkStatus();
  }

  // Reads {n}, {n,}, {n,m} and {,m}.
  absl::Status read_counts(RegexNode* repeat) {
    cursor_.take("{");
    const size_t close = cursor_.rest().find('}');
    if (close == std::string_view::npos) return leave_to_oniguruma("a single {");
    const auto number = [&]() -> std::optional<int> {
      std::optional<int> value;
      while (!cursor_.done() && std::isdigit(static_cast<unsigned char>(cursor_.rest()[0])) != 0) {
        value = std::min(value.value_or(0) * 10 + (cursor_.rest()[0] - '0'), kMaxRepeats + 1);
        ++cursor_.at;
      }
      return value;
    };
    const std::optional<int> min = number();
    const bool comma = cursor_.take(",");
    const std::optional<int> max = comma ? number() : min;
    if (!cursor_.take("}") || !(min.has_value() || max.has_value())) {
      return leave_to_oniguruma("this form of {");
    }
    repeat->min = min.value_or(0);
    repeat->max = max.value_or(RegexNode::kNoMax);
    if (std::max(repeat->min, repeat->max) > kMaxRepeats) return leave_to_oniguruma("a count");
    if (max.has_value() && repeat->min > *max) return leave_to_oniguruma("counts in reverse");
    return absl::OkStatus();
  }

  // Appends the letters as sets, or as their variants in any case, and clears them.
  absl::Status add_letters(Options options, std::vector<char32_t>* letters,
                           std::vector<RegexNode>* items) {
    if (options.ignore_case) {
      std::string text;
      for (const char32_t c : *letters) append_utf8(c, &text);
      RETURN_IF_ERROR(add_any_case(text, items));
    } else {
      for (const char32_t c : *letters) items->push_back(set_node({{c, c}}));
    }
    letters->clear();
    return absl::OkStatus();
  }

  absl::Status add_any_case(std::string_view text, std::vector<RegexNode>* items) {
    while (!text.empty()) {
      if (++variants_ > kMaxVariants) return leave_to_oniguruma("too many variants of letters");
      const CodePoint first = code_point_at(text, 0);
      CodePointSet same = {{first.value, first.value}};
      std::vector<RegexNode> others;
      for (const CaseVariant& variant : case_variants(text)) {
        if (variant.bytes == first.bytes && variant.text.size() == 1) {
          same.add(CodePointSet::Range{variant.text[0], variant.text[0]});
          continue;
        }
        std::vector<RegexNode> other;
        for (const char32_t c : variant.text) other.push_back(set_node({{c, c}}));
        RETURN_IF_ERROR(add_any_case(text.substr(variant.bytes), &other));
        others.push_back(sequence_node(std::move(other)));
      }
      text.remove_prefix(first.bytes);
      if (others.empty()) {
        items->push_back(set_node(std::move(same)));
        continue;
      }
      std::vector<RegexNode> plain;
      plain.push_back(set_node(std::move(same)));
      RETURN_IF_ERROR(add_any_case(text, &plain));
      others.insert(others.begin(), sequence_node(std::move(plain)));
      items->push_back(alternate_node(std::move(others)));
      return absl::OkStatus();
    }
    return absl::OkStatus();
  }

  RegexCursor cursor_;
  size_t variants_ = 0;
};

}  // namespace

absl::StatusOr<RegexNode> parse_regex(std::string_view pattern) { return Parser(pattern).run(); }

}  // namespace lockstep

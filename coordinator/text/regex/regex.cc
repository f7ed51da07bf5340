// SPDX-License-Identifier: Apache-2.0
// Uses our own engine if it supports the pattern, else Oniguruma's. Both find one match at a time.
#include "coordinator/text/regex/regex.h"

#include <utility>

#include "base/check.h"
#include "coordinator/text/regex/regex_matcher.h"
#include "coordinator/text/regex/regex_syntax.h"
#include "coordinator/text/unicode/unicode.h"

namespace lockstep {
namespace {

using Match = std::pair<size_t, size_t>;

// Collects the matches that `search` finds one by one, and the text between them. An empty match
// directly after another match is ignored.
template <typename Search, typename Step>
absl::StatusOr<std::vector<Span>> cut_at_matches(size_t size, Search search, Step step) {
  std::vector<Span> spans;
  size_t covered = 0;
  bool matched = false;
  for (size_t from = 0; from <= size;) {
    ASSIGN_OR_RETURN(const std::optional<Match> match, search(from));
    if (!match.has_value()) break;
    const auto [begin, end] = *match;
    if (begin == end && matched && begin == covered) {
      from = end + step(end);
      continue;
    }
    // \K may move a match's beginning to before the search's start, or after the match's end.
    if (begin < covered || begin > end) {
      return invalid_argument(
          "a pattern's match that ends at {}: must begin between {} and {}, found {}", end, covered,
          end, begin);
    }
    if (covered != begin) spans.push_back({covered, begin, false});
    spans.push_back({begin, end, true});
    matched = true;
    covered = from = end;
  }
  if (covered != size) spans.push_back({covered, size, false});
  return spans;
}

// Converts offsets in characters to offsets in bytes.
void to_bytes(std::string_view text, size_t characters, std::vector<Span>* spans) {
  if (characters == text.size()) return;
  size_t character = 0, byte = 0;
  const auto byte_of = [&](size_t wanted) {
    for (; character < wanted; ++character) byte += code_point_at(text, byte).bytes;
    return byte;
  };
  for (Span& span : *spans) {
    span.begin = byte_of(span.begin);
    span.end = byte_of(span.end);
  }
}

}  // namespace

absl::StatusOr<Regex> Regex::compile(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    return invalid_argument("a pattern of {} bytes; the limit is {}", pattern.size(),
                            kMaxPatternBytes);
  }
  auto oniguruma = OnigurumaRegex::compile(pattern);
  if (!oniguruma.ok()) {
    return invalid_argument("pattern \"{:.80}\": {}", pattern, message_of(oniguruma.status()));
  }
  Regex regex;
  if (auto tree = parse_regex(pattern); tree.ok()) {
    if (auto program = RegexProgram::compile(*tree); program.ok()) {
      regex.program_ = std::make_shared<const RegexProgram>(*std::move(program));
      return regex;
    }
  }
  regex.oniguruma_ = *std::move(oniguruma);
  return regex;
}

absl::StatusOr<std::vector<Span>> Regex::find_all(std::string_view text) const {
  if (text.empty()) return std::vector<Span>{{0, 0, false}};
  if (program_ == nullptr) {
    return cut_at_matches(
        text.size(), [&](size_t from) { return oniguruma_->search(text, from); },
        [&](size_t at) { return at < text.size() ? code_point_at(text, at).bytes : 1; });
  }
  RegexMatcher matcher(*program_, text);
  const auto search = [&](size_t from) -> absl::StatusOr<std::optional<Match>> {
    Match match;
    if (!matcher.search(from, &match)) return std::nullopt;
    return match;
  };
  ASSIGN_OR_RETURN(std::vector<Span> spans,
                   cut_at_matches(matcher.size(), search, [](size_t) -> size_t { return 1; }));
  to_bytes(text, matcher.size(), &spans);
  return spans;
}

}  // namespace lockstep

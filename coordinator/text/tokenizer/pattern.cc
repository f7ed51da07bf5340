// SPDX-License-Identifier: Apache-2.0
// A string is searched directly; a known regular expression has its own scanner.
#include "coordinator/text/tokenizer/pattern.h"

#include "base/check.h"
#include "coordinator/text/text_search.h"
#include "coordinator/text/tokenizer/spec.h"

namespace lockstep {
namespace {

std::vector<Span> find_literal(std::string_view text, std::string_view literal) {
  std::vector<Span> spans;
  size_t covered = 0;
  for (size_t found = find_text(text, literal); found != std::string_view::npos;
       found = find_text(text, literal, covered)) {
    if (found != covered) spans.push_back({covered, found, false});
    covered = found + literal.size();
    spans.push_back({found, covered, true});
  }
  if (covered != text.size()) spans.push_back({covered, text.size(), false});
  return spans;
}

std::vector<Span> scan(std::string_view text, Scanner scanner) {
  std::vector<Span> spans;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = scanner(text, begin);
    spans.push_back({begin, end, true});
    begin = end;
  }
  return spans;
}

}  // namespace

absl::StatusOr<Pattern> Pattern::from_json(const Json& spec, std::string_view what) {
  const bool is_string = member(spec, "String").is_string();
  if (!is_string && !member(spec, "Regex").is_string()) {
    return invalid_argument("{}: the pattern must be {{\"String\": ...}} or {{\"Regex\": ...}}",
                            what);
  }
  ASSIGN_OR_RETURN(const std::string text,
                   string_member(spec, is_string ? "String" : "Regex", what));
  if (is_string && !text.empty()) return from_string(text);
  auto pattern = from_regex(text);
  if (pattern.ok()) return pattern;
  return invalid_argument("{}: {}", what, message_of(pattern.status()));
}

absl::StatusOr<Pattern> Pattern::from_regex(std::string_view regex) {
  Pattern pattern;
  pattern.scanner_ = find_scanner(regex);
  if (pattern.scanner_ == nullptr) {
    ASSIGN_OR_RETURN(pattern.regex_, Regex::compile(regex));
  }
  return pattern;
}

Pattern Pattern::from_string(std::string_view literal) {
  LOCKSTEP_CHECK(!literal.empty());
  Pattern pattern;
  pattern.literal_ = literal;
  return pattern;
}

absl::StatusOr<std::vector<Span>> Pattern::find_all(std::string_view text) const {
  if (text.empty()) return std::vector<Span>{{0, 0, false}};
  if (scanner_ != nullptr) return scan(text, scanner_);
  if (regex_.has_value()) return regex_->find_all(text);
  return find_literal(text, literal_);
}

absl::StatusOr<std::string> Pattern::replace_all(std::string_view text, std::string_view content,
                                                 size_t limit) const {
  ASSIGN_OR_RETURN(const std::vector<Span> spans, find_all(text));
  std::string replaced;
  replaced.reserve(text.size());
  for (const Span& span : spans) {
    replaced += span.is_match ? content : text.substr(span.begin, span.end - span.begin);
    if (replaced.size() > limit) {
      return resource_exhausted("replacing makes {} bytes or more of a text; the limit is {}",
                                replaced.size(), limit);
    }
  }
  return replaced;
}

}  // namespace lockstep

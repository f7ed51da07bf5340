// SPDX-License-Identifier: Apache-2.0
// Nested sequences are flattened when read; each step splits all pieces of the step before.
#include "coordinator/text/tokenizer/pre_tokenizer.h"

#include <algorithm>

#include "coordinator/text/tokenizer/byte_level.h"
#include "coordinator/text/tokenizer/spec.h"
#include "coordinator/text/unicode/unicode.h"
#include "coordinator/text/unicode/unicode_9.h"

namespace lockstep {
namespace {

constexpr const char* kSupported =
    "Sequence, ByteLevel, Split, CharDelimiterSplit, FixedLength, Metaspace, Digits, Punctuation, "
    "Whitespace, WhitespaceSplit, BertPreTokenizer, UnicodeScripts";

constexpr size_t kMaxSteps = 32;

std::vector<Span> find_characters(std::string_view text, bool (*is_delimiter)(char32_t)) {
  std::vector<Span> spans;
  for (size_t offset = 0; offset < text.size();) {
    const CodePoint point = code_point_at(text, offset);
    const bool is_match = is_delimiter(point.value);
    const size_t end = offset + point.bytes;
    if (!is_match && !spans.empty() && !spans.back().is_match) {
      spans.back().end = end;
    } else {
      spans.push_back({offset, end, is_match});
    }
    offset = end;
  }
  return spans;
}

// Splits a text into parts of `length` characters; the last may be shorter.
std::vector<Span> cut_to_length(std::string_view text, size_t length) {
  std::vector<Span> spans;
  size_t characters = 0;
  for (size_t offset = 0; offset < text.size(); ++characters) {
    if (characters % length == 0) spans.push_back({offset, offset, false});
    offset += code_point_at(text, offset).bytes;
    spans.back().end = offset;
  }
  return spans;
}

// Splits a text into parts of one script each. A character that fits any script (kAnyScript)
// belongs to the part before it; at the beginning it is dropped, as in tokenizers.
std::vector<Span> cut_at_scripts(std::string_view text) {
  std::vector<Span> spans;
  int last = kAnyScript;
  for (size_t offset = 0; offset < text.size();) {
    const CodePoint point = code_point_at(text, offset);
    const int script = script_of_unicode_9(point.value);
    if (script != kAnyScript && script != last) {
      spans.push_back({offset, offset, false});
      last = script;
    }
    offset += point.bytes;
    if (!spans.empty()) spans.back().end = offset;
  }
  return spans;
}

// \w+|[^\w\s]+ : words, and the text between words and blanks.
std::vector<Span> find_words(std::string_view text) {
  enum class Kind { kWord, kBlank, kOther };
  std::vector<Span> spans;
  std::optional<Kind> previous;
  for (size_t offset = 0; offset < text.size();) {
    const CodePoint point = code_point_at(text, offset);
    const Kind kind = is_word(point.value)    ? Kind::kWord
                      : is_space(point.value) ? Kind::kBlank
                                              : Kind::kOther;
    if (kind == previous) {
      spans.back().end = offset + point.bytes;
    } else {
      spans.push_back({offset, offset + point.bytes, kind != Kind::kBlank});
    }
    previous = kind;
    offset += point.bytes;
  }
  return spans;
}

// A delimiter joins the span before it; if `begin` and `end` go backwards, the span after it. The
// second of two successive delimiters stays alone.
template <typename Iterator>
std::vector<Span> join_neighbours(Iterator begin, Iterator end) {
  std::vector<Span> merged;
  bool previous_match = false;
  for (Iterator span = begin; span != end; ++span) {
    if (span->is_match && !previous_match && !merged.empty()) {
      merged.back().begin = std::min(merged.back().begin, span->begin);
      merged.back().end = std::max(merged.back().end, span->end);
    } else {
      merged.push_back(*span);
    }
    previous_match = span->is_match;
  }
  return merged;
}

}  // namespace

absl::StatusOr<PreTokenizer> PreTokenizer::from_json(const Json& spec) {
  PreTokenizer pre_tokenizer;
  if (!spec.is_null()) RETURN_IF_ERROR(pre_tokenizer.add(spec));
  return pre_tokenizer;
}

absl::StatusOr<PreTokenizer::Behavior> PreTokenizer::read_behavior(const Json& value,
                                                                   const std::string& what) {
  if (value == "Isolated") return Behavior::kIsolated;
  if (value == "Removed") return Behavior::kRemoved;
  if (value == "MergedWithPrevious") return Behavior::kMergedWithPrevious;
  if (value == "MergedWithNext") return Behavior::kMergedWithNext;
  if (value == "Contiguous") return Behavior::kContiguous;
  return invalid_argument(
      "{}: \"behavior\" must be Isolated, Removed, MergedWithPrevious, "
      "MergedWithNext or Contiguous",
      what);
}

absl::Status PreTokenizer::read_split(const Json& spec, const std::string& what, Step* step) {
  ASSIGN_OR_RETURN(step->pattern, Pattern::from_json(member(spec, "pattern"), what));
  ASSIGN_OR_RETURN(step->behavior, read_behavior(member(spec, "behavior"), what));
  ASSIGN_OR_RETURN(step->invert, bool_member(spec, "invert", what, false));
  return absl::OkStatus();
}

absl::Status PreTokenizer::read_byte_level(const Json& spec, const std::string& what, Step* step) {
  step->kind = Kind::kByteLevel;
  ASSIGN_OR_RETURN(const bool prefix, bool_member(spec, "add_prefix_space", what, true));
  step->prepend = prefix ? Prepend::kAlways : Prepend::kNever;
  ASSIGN_OR_RETURN(step->cut, bool_member(spec, "use_regex", what, true));
  ASSIGN_OR_RETURN(step->pattern, Pattern::from_regex(kGpt2Pattern));
  return absl::OkStatus();
}

absl::Status PreTokenizer::read_metaspace(const Json& spec, const std::string& what, Step* step) {
  step->kind = Kind::kMetaspace;
  ASSIGN_OR_RETURN(step->replacement, character_member(spec, "replacement", what));
  ASSIGN_OR_RETURN(std::string scheme, string_member(spec, "prepend_scheme", what, "always"));
  // "add_prefix_space": false is the older form of "never".
  ASSIGN_OR_RETURN(const bool prefix, bool_member(spec, "add_prefix_space", what, true));
  if (!prefix) scheme = "never";
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    return invalid_argument(
        "{}: \"prepend_scheme\" must be always, first or never, found \"{:.40}\"", what, scheme);
  }
  step->prepend = scheme == "always"  ? Prepend::kAlways
                  : scheme == "first" ? Prepend::kFirst
                                      : Prepend::kNever;
  ASSIGN_OR_RETURN(step->cut, bool_member(spec, "split", what, true));
  step->pattern = Pattern::from_string(step->replacement);
  return absl::OkStatus();
}

absl::Status PreTokenizer::read_characters(const Json& spec, const std::string& what,
                                           const std::string& type, Step* step) {
  step->kind = Kind::kCharacters;
  if (type == "Digits") {
    ASSIGN_OR_RETURN(const bool individual, bool_member(spec, "individual_digits", what, false));
    step->behavior = individual ? Behavior::kIsolated : Behavior::kContiguous;
    step->is_delimiter = is_numeric;
  } else if (type == "Punctuation") {
    const Json& behavior = member(spec, "behavior");
    if (!behavior.is_null()) {
      ASSIGN_OR_RETURN(step->behavior, read_behavior(behavior, what));
    }
    step->is_delimiter = is_punctuation;
  } else if (type == "WhitespaceSplit") {
    step->behavior = Behavior::kRemoved;
    step->is_delimiter = is_space;
  } else {  // Whitespace does not split by single characters, see find_words().
    step->behavior = Behavior::kRemoved;
    step->invert = true;
  }
  return absl::OkStatus();
}

absl::Status PreTokenizer::add(const Json& spec) {
  ASSIGN_OR_RETURN(const std::string type, type_member(spec, "pre_tokenizer"));
  const std::string what = fmt::format("pre_tokenizer \"{:.60}\"", type);
  if (type == "Sequence") {
    const Json& parts = member(spec, "pretokenizers");
    if (!parts.is_array()) return invalid_argument("{}: \"pretokenizers\" must be a list", what);
    for (const Json& part : parts) RETURN_IF_ERROR(add(part));
    return absl::OkStatus();
  }
  if (type == "BertPreTokenizer") {
    RETURN_IF_ERROR(add({{"type", "WhitespaceSplit"}}));
    return add({{"type", "Punctuation"}});
  }
  Step step;
  if (type == "Split") {
    RETURN_IF_ERROR(read_split(spec, what, &step));
  } else if (type == "CharDelimiterSplit") {
    ASSIGN_OR_RETURN(const std::string delimiter, character_member(spec, "delimiter", what));
    step.pattern = Pattern::from_string(delimiter);
    step.behavior = Behavior::kRemoved;
  } else if (type == "FixedLength") {
    step.kind = Kind::kFixedLength;
    ASSIGN_OR_RETURN(step.length, int_member(spec, "length", what, 1, INT32_MAX));
  } else if (type == "UnicodeScripts") {
    step.kind = Kind::kScripts;
  } else if (type == "ByteLevel") {
    RETURN_IF_ERROR(read_byte_level(spec, what, &step));
  } else if (type == "Metaspace") {
    RETURN_IF_ERROR(read_metaspace(spec, what, &step));
  } else if (type == "Digits" || type == "Punctuation" || type == "Whitespace" ||
             type == "WhitespaceSplit") {
    RETURN_IF_ERROR(read_characters(spec, what, type, &step));
  } else {
    return invalid_argument("{} is not supported; supported: {}", what, kSupported);
  }
  // Each ByteLevel after the first almost doubles the text.
  const auto byte_levels = std::count_if(steps_.begin(), steps_.end(), [](const Step& other) {
    return other.kind == Kind::kByteLevel;
  });
  if (steps_.size() == kMaxSteps || (step.kind == Kind::kByteLevel && byte_levels == 2)) {
    return invalid_argument("{}: more than {} steps or a third ByteLevel", what, kMaxSteps);
  }
  steps_.push_back(std::move(step));
  return absl::OkStatus();
}

std::vector<Span> PreTokenizer::merge(const std::vector<Span>& spans, Behavior behavior) {
  switch (behavior) {
    case Behavior::kIsolated:
      return spans;
    case Behavior::kRemoved: {
      std::vector<Span> kept;
      std::copy_if(spans.begin(), spans.end(), std::back_inserter(kept),
                   [](const Span& span) { return !span.is_match; });
      return kept;
    }
    case Behavior::kMergedWithPrevious:
      return join_neighbours(spans.begin(), spans.end());
    case Behavior::kMergedWithNext: {
      std::vector<Span> merged = join_neighbours(spans.rbegin(), spans.rend());
      std::reverse(merged.begin(), merged.end());
      return merged;
    }
    case Behavior::kContiguous: {
      std::vector<Span> merged;
      for (const Span& span : spans) {
        if (!merged.empty() && merged.back().is_match == span.is_match) {
          merged.back().end = span.end;
        } else {
          merged.push_back(span);
        }
      }
      return merged;
    }
  }
  return spans;
}

absl::Status PreTokenizer::run(const Step& step, Piece piece, std::vector<Piece>* pieces) {
  const bool is_byte_level = step.kind == Kind::kByteLevel;
  const std::string mark = is_byte_level ? " " : step.replacement;
  if (step.kind == Kind::kMetaspace) {
    ASSIGN_OR_RETURN(piece.text, Pattern::from_string(" ").replace_all(piece.text, mark));
  }
  const bool wants_mark =
      step.prepend == Prepend::kAlways || (step.prepend == Prepend::kFirst && piece.at_start);
  if (wants_mark && !piece.text.starts_with(mark)) piece.text.insert(0, mark);

  std::vector<Span> spans;
  if (!step.cut) {
    spans = {{0, piece.text.size(), false}};
  } else if (step.kind == Kind::kScripts) {
    spans = cut_at_scripts(piece.text);
  } else if (step.kind == Kind::kFixedLength) {
    spans = cut_to_length(piece.text, static_cast<size_t>(step.length));
  } else if (step.pattern.has_value()) {
    ASSIGN_OR_RETURN(spans, step.pattern->find_all(piece.text));
  } else if (step.is_delimiter != nullptr) {
    spans = find_characters(piece.text, step.is_delimiter);
  } else {
    spans = find_words(piece.text);
  }
  if (step.invert) {
    for (Span& span : spans) span.is_match = !span.is_match;
  }
  const Behavior behavior =
      step.kind == Kind::kMetaspace ? Behavior::kMergedWithNext : step.behavior;
  for (const Span& span : merge(spans, behavior)) {
    if (span.begin == span.end) continue;
    const auto text = std::string_view(piece.text).substr(span.begin, span.end - span.begin);
    pieces->push_back({is_byte_level ? to_byte_level(text) : std::string(text),
                       piece.at_start && span.begin == 0});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Piece>> PreTokenizer::split(Piece text) const {
  std::vector<Piece> pieces;
  if (!text.text.empty()) pieces.push_back(std::move(text));
  for (const Step& step : steps_) {
    std::vector<Piece> parts;
    for (Piece& piece : pieces) RETURN_IF_ERROR(run(step, std::move(piece), &parts));
    pieces = std::move(parts);
  }
  return pieces;
}

}  // namespace lockstep

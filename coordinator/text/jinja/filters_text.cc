// SPDX-License-Identifier: Apache-2.0
// Filters that make texts of texts. Anything else is made a text first, as Python's str() does it.
#include <algorithm>

#include "coordinator/text/jinja/access.h"
#include "coordinator/text/jinja/builtin.h"
#include "coordinator/text/jinja/characters.h"
#include "coordinator/text/jinja/format.h"
#include "coordinator/text/jinja/operators.h"
#include "coordinator/text/jinja/show.h"
#include "coordinator/text/jinja/transforms.h"
#include "coordinator/text/unicode.h"

namespace lockstep::jinja {
namespace {

// str(value), paid for being looked at.
absl::StatusOr<MarkedText> own(Call& call) {
  ASSIGN_OR_RETURN(MarkedText text, call.self_str());
  call.budget().scan(text.bytes.size());
  return text;
}

template <MarkedText (*kTransform)(const MarkedText&)>
Result transformed(Call& call) {
  ASSIGN_OR_RETURN(const MarkedText text, own(call));
  return call.runtime.checked_text(kTransform(text));
}

MarkedText itself(const MarkedText& text) { return text; }

Result trim(Call& call) {
  ASSIGN_OR_RETURN(const MarkedText text, own(call));
  std::optional<std::string_view> characters;
  if (call.given(0) != nullptr) {
    ASSIGN_OR_RETURN(const Text* set, call.text(0));
    characters = set->bytes();
  }
  return call.runtime.text(strip(text, characters));
}

Result replace_filter(Call& call) {
  ASSIGN_OR_RETURN(const MarkedText text, own(call));
  ASSIGN_OR_RETURN(const MarkedText old, call.str(call[0]));
  ASSIGN_OR_RETURN(const MarkedText by, call.str(call[1]));
  int64_t count = -1;
  if (call.given(2) != nullptr) {
    ASSIGN_OR_RETURN(count, call.integer_or(2, -1));
  }
  ASSIGN_OR_RETURN(MarkedText made, replace(&call.budget(), text, old.bytes, by, count));
  return call.runtime.text(std::move(made));
}

Result center(Call& call) {
  ASSIGN_OR_RETURN(const MarkedText text, own(call));
  ASSIGN_OR_RETURN(const int64_t width, call.integer_or(0, 80));
  ASSIGN_OR_RETURN(MarkedText made, pad(&call.budget(), text, count_code_points(text.bytes), width,
                                        " ", Ends::kBoth));
  return call.runtime.text(std::move(made));
}

// The blanks that `indent` puts before a line: that many, or a text.
absl::StatusOr<MarkedText> indentation(Call& call) {
  if (call.has(0) && call[0].text() != nullptr) return call[0].text()->content;
  ASSIGN_OR_RETURN(const int64_t width, call.integer_or(0, 4));
  return pad(&call.budget(), {}, 0, width, " ", Ends::kLeft);
}

Result indent(Call& call) {
  if (call.self.is_undefined()) return undefined_error(call.self);
  if (call.self.text() == nullptr) {
    return invalid_argument("indent: wanted a string, not {}", type_name(call.self));
  }
  ASSIGN_OR_RETURN(MarkedText text, own(call));
  ASSIGN_OR_RETURN(const MarkedText blanks, indentation(call));
  const bool first = call.truth_or(1, false);
  const bool blank = call.truth_or(2, false);
  text.append("\n", false);
  MarkedText made;
  bool is_first = true;
  for (const ByteRange& line : split_lines(text.bytes, false)) {
    if (!is_first) made.append("\n", false);
    const bool filled = is_first ? first : blank || line.begin < line.end;
    if (filled) made.append(blanks);
    made.append(text, line.begin, line.end);
    is_first = false;
    RETURN_IF_ERROR(call.budget().check_text(made.bytes.size()));
  }
  return call.runtime.text(std::move(made));
}

Result truncate(Call& call) {
  ASSIGN_OR_RETURN(const int64_t most, call.integer_or(0, 255));
  const bool kill_words = call.truth_or(1, false);
  MarkedText end = MarkedText::of("...", false);
  if (call.has(2)) {
    ASSIGN_OR_RETURN(const Text* given, call.text(2));
    end = given->content;
  }
  int64_t leeway = 5;
  if (call.given(3) != nullptr) {
    ASSIGN_OR_RETURN(leeway, call.integer_or(3, 5));
  }
  const int64_t end_length = count_code_points(end.bytes);
  if (most < end_length) return invalid_argument("expected length >= {}, got {}", end_length, most);
  if (leeway < 0) return invalid_argument("expected leeway >= 0, got {}", leeway);
  ASSIGN_OR_RETURN(const int64_t own_length, length(call.self));
  if (leeway > INT64_MAX - most || own_length <= most + leeway) return call.self;
  if (call.self.text() == nullptr) {
    return invalid_argument("truncate: wanted a string, not {}", type_name(call.self));
  }
  const Value stop = most - end_length;
  ASSIGN_OR_RETURN(const Value kept, slice(call.runtime, call.self, nullptr, &stop, nullptr));
  MarkedText made = kept.text()->content;
  const std::string blank = " ";
  if (!kill_words) made.truncate(split(made.bytes, &blank, 1, Ends::kRight)[0].end);
  made.append(end);
  return call.runtime.checked_text(std::move(made));
}

Result wordcount(Call& call) {
  ASSIGN_OR_RETURN(const MarkedText text, own(call));
  int64_t count = 0;
  bool in_word = false;
  for (size_t at = 0; at < text.bytes.size();) {
    const CodePoint point = code_point_at(text.bytes, at);
    const bool word = point.value == '_' || is_alphabetic(point.value) || is_numeric(point.value);
    if (word && !in_word) ++count;
    in_word = word;
    at += point.bytes;
  }
  return count;
}

// HTML's five characters as entities.
Result escape(Call& call) {
  ASSIGN_OR_RETURN(const MarkedText text, own(call));
  constexpr std::string_view kCharacters = "&<>'\"";
  constexpr std::string_view kEntities[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
  MarkedText made;
  MarkCursor marks(text);
  for (size_t at = 0; at < text.bytes.size(); ++at) {
    const std::string_view byte(&text.bytes[at], 1);
    const size_t found = kCharacters.find(byte);
    made.append(found == std::string_view::npos ? byte : kEntities[found], marks.at(at));
  }
  return call.runtime.checked_text(std::move(made));
}

Result format_filter(Call& call) {
  const Arguments& arguments = call.arguments;
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    return invalid_argument("can't handle positional and keyword arguments at the same time");
  }
  ASSIGN_OR_RETURN(MarkedText text, own(call));
  Value values = call.runtime.tuple(arguments.positional);
  if (!arguments.named.empty()) {
    Dict dict;
    for (const auto& [name, value] : arguments.named) dict.set(call.runtime.text(name), value);
    values = call.runtime.dict(std::move(dict));
  }
  const Value format = call.runtime.text(std::move(text));
  return percent_format(call.runtime, *format.text(), values);
}

// Appends with "%" and two digits for each byte that is not safe in a URL.
void append_quoted(const MarkedText& text, bool in_query, MarkedText* made) {
  MarkCursor marks(text);
  for (size_t at = 0; at < text.bytes.size(); ++at) {
    const char c = text.bytes[at];
    const bool letter = (c | 32) >= 'a' && (c | 32) <= 'z';
    const bool safe = letter || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-' ||
                      c == '~' || (c == '/' && !in_query);
    const auto byte = static_cast<unsigned char>(c);
    made->append(safe                   ? std::string(1, c)
                 : in_query && c == ' ' ? std::string("+")
                                        : fmt::format("%{:02X}", byte),
                 marks.at(at));
  }
}

Result urlencode(Call& call) {
  MarkedText made;
  const bool pairs = call.self.dict() != nullptr || call.self.sequence() != nullptr;
  if (!pairs) {
    ASSIGN_OR_RETURN(const MarkedText text, own(call));
    append_quoted(text, false, &made);
    return call.runtime.checked_text(std::move(made));
  }
  ASSIGN_OR_RETURN(const std::vector<Value> items, items_of(call.runtime, call.self));
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) made.append("&", false);
    std::vector<Value> pair = {items[i]};
    if (call.self.dict() != nullptr) {
      pair.push_back(call.self.dict()->entries[i].second);
    } else {
      ASSIGN_OR_RETURN(pair, items_of(call.runtime, items[i]));
    }
    if (pair.size() != 2) return invalid_argument("urlencode: wanted pairs of a key and a value");
    ASSIGN_OR_RETURN(const MarkedText key, call.str(pair[0]));
    ASSIGN_OR_RETURN(const MarkedText value, call.str(pair[1]));
    call.budget().scan(key.bytes.size() + value.bytes.size());
    append_quoted(key, true, &made);
    made.append("=", false);
    append_quoted(value, true, &made);
    RETURN_IF_ERROR(call.budget().check_text(made.bytes.size()));
  }
  return call.runtime.text(std::move(made));
}

Result tojson(Call& call) {
  JsonStyle style;
  style.ascii_only = call.truth_or(0, false);
  style.sort_keys = call.truth_or(3, false);
  if (call.given(1) != nullptr) {
    style.lines = true;
    style.item_separator.assign(1, ',');
    if (const Text* indent = call[1].text()) {
      style.indent = indent->bytes();
    } else {
      ASSIGN_OR_RETURN(const int64_t width, call.integer_or(1, 0));
      if (width > 1000) return invalid_argument("tojson: an indent of more than 1000 blanks");
      style.indent = std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
    }
  }
  if (call.given(2) != nullptr) {
    ASSIGN_OR_RETURN(const std::vector<Value> both, items_of(call.runtime, call[2]));
    if (both.size() != 2 || both[0].text() == nullptr || both[1].text() == nullptr) {
      return call.wrong_type(2, "two strings");
    }
    style.item_separator = both[0].text()->bytes();
    style.key_separator = both[1].text()->bytes();
  }
  MarkedText text;
  RETURN_IF_ERROR(append_json(call.runtime, call.self, style, &text));
  return call.runtime.text(std::move(text));
}

constexpr Builtin kFilters[] = {
    {"capitalize", "", transformed<capitalize>},
    {"center", "width?", center},
    {"e", "", escape},
    {"escape", "", escape},
    {"forceescape", "", escape},
    {"format", "*", format_filter},
    {"indent", "width? first? blank?", indent},
    {"lower", "", transformed<to_lower>},
    {"replace", "old new count?", replace_filter},
    {"safe", "", transformed<itself>},
    {"string", "", transformed<itself>},
    {"title", "", transformed<title_words>},
    {"tojson", "ensure_ascii? indent? separators? sort_keys?", tojson},
    {"trim", "chars?", trim},
    {"truncate", "length? killwords? end? leeway?", truncate},
    {"upper", "", transformed<to_upper>},
    {"urlencode", "", urlencode},
    {"wordcount", "", wordcount},
};

}  // namespace

std::span<const Builtin> text_filters() { return kFilters; }

}  // namespace lockstep::jinja

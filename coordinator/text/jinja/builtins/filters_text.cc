// SPDX-License-Identifier: Apache-2.0
// Filters on texts. Other values are first converted to text, as by Python's str().
#include <algorithm>

#include "coordinator/text/jinja/strings/characters.h"
#include "coordinator/text/jinja/strings/transforms.h"
#include "coordinator/text/jinja/values/builtin.h"
#include "coordinator/text/jinja/values/format.h"
#include "coordinator/text/jinja/values/operators.h"
#include "coordinator/text/unicode/unicode.h"

namespace lockstep::jinja {
namespace {

// str(self). Charges the budget for reading it.
MarkedText own(Call& call) {
  MarkedText text = call.str(call.self);
  call.budget.scan(text.bytes.size());
  return text;
}

template <MarkedText (*kTransform)(const MarkedText&)>
Value transformed(Call& call) {
  return call.runtime.checked_text(kTransform(own(call)));
}

Value string(Call& call) { return call.runtime.checked_text(own(call)); }

Value trim(Call& call) {
  std::optional<std::string_view> characters;
  if (call.given(0)) characters = call.text(0).bytes();
  return call.runtime.text(strip(own(call), characters));
}

Value replace_filter(Call& call) {
  const MarkedText text = own(call);
  const MarkedText old = call.str(call[0]);
  const MarkedText by = call.str(call[1]);
  const int64_t count = call.given(2) ? call.integer_or(2, -1) : -1;
  return call.runtime.text(replace(call.budget, text, old.bytes, by, count));
}

Value center(Call& call) {
  const MarkedText text = own(call);
  return call.runtime.text(pad(call.budget, text, call.integer_or(0, 80), " ", Ends::kBoth));
}

Value indent(Call& call) {
  if (call.self.text() == nullptr) {
    return wrong_type(call.budget, call.self, "indent: must be a string, found {}",
                      call.self.type_name());
  }
  MarkedText text = own(call);
  text.append("\n", false);
  // A number of blanks, or a text.
  const MarkedText blanks = call.has(0) && call[0].text() != nullptr
                                ? call[0].text()->content
                                : pad(call.budget, {}, call.integer_or(0, 4), " ", Ends::kLeft);
  const bool first = call.truth_or(1, false);
  const bool blank = call.truth_or(2, false);
  MarkedText made;
  for (const ByteRange& line : split_lines(text.bytes, false)) {
    const bool is_first = line.begin == 0;
    if (!is_first) made.append("\n", false);
    if (is_first ? first : blank || line.begin < line.end) made.append(blanks);
    made.append(text, line.begin, line.end);
    if (!call.budget.check_text(made.bytes.size())) return {};
  }
  return call.runtime.text(std::move(made));
}

Value truncate(Call& call) {
  const int64_t max = call.integer_or(0, 255);
  const MarkedText end = call.has(2) ? call.text(2).content : MarkedText::of("...", false);
  const int64_t leeway = call.given(3) ? call.integer_or(3, 5) : 5;
  const int64_t end_length = count_characters(end.bytes);
  if (max < end_length) {
    return call.budget.refuse("expected length >= {}, got {}", end_length, max);
  }
  if (leeway < 0) return call.budget.refuse("expected leeway >= 0, got {}", leeway);
  const int64_t own_length = length(call.budget, call.self);
  if (leeway > INT64_MAX - max || own_length <= max + leeway) return call.self;
  if (call.self.text() == nullptr) {
    return call.budget.refuse("truncate: must be a string, found {}", call.self.type_name());
  }
  const Text& text = *call.self.text();
  MarkedText made = text.content.substr(0, text.offset_of(max - end_length));
  if (!call.truth_or(1, false)) made.truncate(split(made.bytes, " ", 1, Ends::kRight)[0].end);
  made.append(end);
  return call.runtime.checked_text(std::move(made));
}

Value wordcount(Call& call) {
  const MarkedText text = own(call);
  int64_t count = 0;
  bool in_word = false;
  for (const Character& c : Characters(text.bytes)) {
    const bool was_in_word =
        std::exchange(in_word, c.value == '_' || is_letter(c.value) || is_number(c.value));
    if (in_word && !was_in_word) ++count;
  }
  return count;
}

// HTML's five special characters as entities.
Value escape(Call& call) {
  constexpr std::string_view kCharacters = "&<>'\"";
  constexpr std::string_view kEntities[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
  MarkedText made;
  append_mapped(own(call), &made, [&](const Character& c, std::string* piece) {
    const size_t found =
        c.value < 0x80 ? kCharacters.find(static_cast<char>(c.value)) : std::string_view::npos;
    if (found != std::string_view::npos) *piece = kEntities[found];
  });
  return call.runtime.checked_text(std::move(made));
}

// Appends the text; each byte that is not safe in a URL becomes "%" and two digits.
void append_quoted(const MarkedText& text, bool in_query, MarkedText* made) {
  append_mapped(text, made, [&](const Character& c, std::string* piece) {
    const bool letter = (c.value | 32) >= 'a' && (c.value | 32) <= 'z';
    const bool safe = letter || (c.value >= '0' && c.value <= '9') || c.value == '_' ||
                      c.value == '.' || c.value == '-' || c.value == '~' ||
                      (c.value == '/' && !in_query);
    if (safe) return;
    for (size_t at = c.begin; at < c.end; ++at) {
      *piece += fmt::format("%{:02X}", static_cast<unsigned char>(text.bytes[at]));
    }
    if (in_query && c.value == ' ') *piece = "+";
  });
}

Value urlencode(Call& call) {
  const Dict* dict = call.self.dict();
  MarkedText made;
  if (dict == nullptr && call.self.sequence() == nullptr) {
    append_quoted(own(call), false, &made);
    return call.runtime.checked_text(std::move(made));
  }
  const std::vector<Value> items = items_of(call.runtime, call.self);
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) made.append("&", false);
    const std::vector<Value> pair = dict != nullptr
                                        ? std::vector<Value>{items[i], dict->entries[i].second}
                                        : items_of(call.runtime, items[i]);
    if (pair.size() != 2) {
      return call.budget.refuse("urlencode: must be pairs of a key and a value");
    }
    const MarkedText key = call.str(pair[0]);
    const MarkedText value = call.str(pair[1]);
    call.budget.scan(key.bytes.size() + value.bytes.size());
    append_quoted(key, true, &made);
    made.append("=", false);
    append_quoted(value, true, &made);
    if (!call.budget.check_text(made.bytes.size())) return {};
  }
  return call.runtime.text(std::move(made));
}

Value format_filter(Call& call) {
  const Arguments& arguments = call.arguments;
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    return call.budget.refuse("can't handle positional and keyword arguments at the same time");
  }
  const Value format = call.runtime.text(own(call));
  if (arguments.named.empty()) {
    return percent_format(call.runtime, *format.text(), call.runtime.tuple(arguments.positional));
  }
  Dict dict;
  for (const auto& [name, value] : arguments.named) dict.set(call.runtime.text(name), value);
  return percent_format(call.runtime, *format.text(), call.runtime.dict(std::move(dict)));
}

Value tojson(Call& call) {
  JsonStyle style{.ascii_only = call.truth_or(0, false), .sort_keys = call.truth_or(3, false)};
  if (call.given(1)) {
    style.lines = true;
    style.item_separator.assign(1, ',');
    if (const Text* indent = call[1].text()) {
      style.indent = indent->bytes();
    } else {
      const int64_t width = call.integer_or(1, 0);
      if (width > 1000) {
        return call.budget.refuse("tojson: an indent of more than 1000 blanks");
      }
      style.indent = std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
    }
  }
  if (call.given(2)) {
    const std::vector<Value> both = items_of(call.runtime, call[2]);
    if (both.size() != 2 || both[0].text() == nullptr || both[1].text() == nullptr) {
      return call.wrong_argument(2, "two strings");
    }
    style.item_separator = both[0].text()->bytes();
    style.key_separator = both[1].text()->bytes();
  }
  MarkedText text;
  append_json(call.runtime, call.self, style, &text);
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
    {"safe", "", string},
    {"string", "", string},
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

// SPDX-License-Identifier: Apache-2.0
// The methods of Python's str, by code points.
#include <algorithm>

#include "coordinator/text/jinja/strings/characters.h"
#include "coordinator/text/jinja/strings/transforms.h"
#include "coordinator/text/jinja/values/builtin.h"
#include "coordinator/text/jinja/values/format.h"
#include "coordinator/text/jinja/values/operators.h"
#include "coordinator/text/unicode/unicode.h"

namespace lockstep::jinja {
namespace {

const MarkedText& own(Call& call) {
  const Text& text = *call.self.text();
  call.budget.scan(text.bytes().size());
  return text.content;
}

template <MarkedText (*kTransform)(const MarkedText&)>
Value transformed(Call& call) {
  return call.runtime.checked_text(kTransform(own(call)));
}

template <Ends kEnds>
Value stripped(Call& call) {
  std::optional<std::string_view> characters;
  if (call.given(0)) {
    characters = call.text(0).bytes();
    call.budget.scan(characters->size());
  }
  return call.runtime.text(strip(own(call), characters, kEnds));
}

Value parts_of(Call& call, const std::vector<ByteRange>& parts) {
  std::vector<Value> items;
  call.budget.spend(static_cast<int64_t>(parts.size()));
  for (const ByteRange& part : parts) {
    if (!call.budget.ok()) return {};
    items.push_back(call.runtime.text(call.self.text()->content.substr(part.begin, part.end)));
  }
  return call.runtime.list(std::move(items));
}

// The separator of a split: not empty.
std::string_view separator(Call& call) {
  if (call.text(0).bytes().empty()) call.budget.refuse("empty separator");
  return call.text(0).bytes();
}

template <Ends kFrom>
Value split_method(Call& call) {
  std::optional<std::string_view> at;
  if (call.given(0)) at = separator(call);
  const int64_t max = call.integer_or(1, -1);
  const std::string& bytes = own(call).bytes;
  return call.budget.ok() ? parts_of(call, split(bytes, at, max, kFrom)) : Value();
}

Value splitlines(Call& call) {
  return parts_of(call, split_lines(own(call).bytes, call.truth_or(0, false)));
}

template <Ends kFrom>
Value partition(Call& call) {
  const std::string_view at = separator(call);
  const MarkedText& text = own(call);
  const std::vector<size_t> found = positions_of(text.bytes, at, 1, kFrom);
  const Value none = call.runtime.text("");
  if (found.empty()) {
    return call.runtime.tuple(kFrom == Ends::kRight ? std::vector<Value>{none, none, call.self}
                                                    : std::vector<Value>{call.self, none, none});
  }
  const Value before = call.runtime.text(text.substr(0, found[0]));
  const MarkedText after = text.substr(found[0] + at.size(), text.bytes.size());
  return call.runtime.tuple({before, call[0], call.runtime.text(after)});
}

Value replace_method(Call& call) {
  const Text& old = call.text(0);
  const Text& by = call.text(1);
  const int64_t count = call.integer_or(2, -1);
  return call.runtime.text(replace(call.budget, own(call), old.bytes(), by.content, count));
}

// The part of the text that is searched. Argument number `first` is its begin, the next argument
// its end, both in code points; the result is in bytes. Nullopt if the part begins after its end or
// after the text's end: there not even an empty text is found.
struct Searched {
  size_t begin;
  std::string_view part;
};
std::optional<Searched> searched(Call& call, size_t first) {
  const Text& text = *call.self.text();
  const auto bound = [&](size_t index, int64_t fallback) {
    const int64_t given = call.given(index) ? call.integer_or(index, fallback) : fallback;
    return given < 0 ? std::max<int64_t>(given + text.length, 0) : given;
  };
  const int64_t begin = bound(first, 0);
  const int64_t last = std::min(bound(first + 1, text.length), text.length);
  call.budget.scan(text.bytes().size());
  if (begin > last) return std::nullopt;
  const size_t at = text.offset_of(begin);
  const size_t end = text.offset_of(last);
  return Searched{at, std::string_view(text.bytes()).substr(at, end - at)};
}

// The index of the code point at which the argument is found. If it is not found: -1, or an error
// if kRequired.
template <Ends kFrom, bool kRequired>
Value place(Call& call) {
  const std::string& wanted = call.text(0).bytes();
  const auto range = searched(call, 1);
  if (range.has_value()) {
    const std::vector<size_t> found = positions_of(range->part, wanted, 1, kFrom);
    const std::string_view text = call.self.text()->bytes();
    if (!found.empty()) return count_characters(text.substr(0, range->begin + found[0]));
  }
  if (kRequired) return call.budget.refuse("substring not found");
  return int64_t{-1};
}

Value count(Call& call) {
  const std::string& wanted = call.text(0).bytes();
  const auto range = searched(call, 1);
  if (!range.has_value()) return int64_t{0};
  if (wanted.empty()) return count_characters(range->part) + 1;
  return static_cast<int64_t>(split(range->part, wanted).size()) - 1;
}

template <bool kAtEnd>
Value starts_or_ends(Call& call) {
  const auto range = searched(call, 1);
  const auto matches = [&](const Text& wanted) {
    return range.has_value() && (kAtEnd ? range->part.ends_with(wanted.bytes())
                                        : range->part.starts_with(wanted.bytes()));
  };
  const Sequence* several = call[0].sequence();
  if (several == nullptr || several->type != Sequence::Type::kTuple) return matches(call.text(0));
  for (const Value& item : several->items) {
    if (item.text() == nullptr) return call.wrong_argument(0, "a string or a tuple of strings");
    if (call.budget.spend(1) && matches(*item.text())) return true;
  }
  return false;
}

template <bool kSuffix>
Value without_affix(Call& call) {
  const std::string& affix = call.text(0).bytes();
  const MarkedText& text = own(call);
  const size_t rest = text.bytes.size() - std::min(affix.size(), text.bytes.size());
  if (kSuffix && text.bytes.ends_with(affix)) return call.runtime.text(text.substr(0, rest));
  if (!kSuffix && text.bytes.starts_with(affix)) {
    return call.runtime.text(text.substr(affix.size(), text.bytes.size()));
  }
  return call.self;
}

template <Ends kPadded>
Value padded(Call& call) {
  const int64_t width = call.integer_or(0, 0);
  const std::string_view fill = call.text_or(1, " ");
  if (count_characters(fill) != 1) return call.wrong_argument(1, "one character");
  return call.runtime.text(pad(call.budget, own(call), width, fill, kPadded));
}

Value zfill(Call& call) {
  const int64_t width = call.integer_or(0, 0);
  const MarkedText& text = own(call);
  const size_t sign = text.bytes.starts_with('-') || text.bytes.starts_with('+') ? 1 : 0;
  const auto shift = static_cast<int64_t>(sign);
  MarkedText made = text.substr(0, sign);
  made.append(pad(call.budget, text.substr(sign, text.bytes.size()), std::max(width, shift) - shift,
                  "0", Ends::kLeft));
  return call.runtime.text(std::move(made));
}

Value join(Call& call) {
  const std::vector<Value> items = items_of(call.runtime, call[0]);
  MarkedText made;
  for (size_t i = 0; i < items.size(); ++i) {
    const Text* item = items[i].text();
    if (item == nullptr) {
      return call.budget.refuse("sequence item {}: expected str instance, {} found", i,
                                items[i].type_name());
    }
    if (i > 0) made.append(call.self.text()->content);
    made.append(item->content);
    call.budget.spend(1);
    if (!call.budget.check_text(made.bytes.size())) return {};
  }
  return call.runtime.text(std::move(made));
}

Value expandtabs(Call& call) {
  const int64_t size = call.integer_or(0, 8);
  const MarkedText& text = own(call);
  MarkedText made;
  int64_t column = 0;
  for (const Character& c : Characters(text.bytes)) {
    if (c.value == '\t') {
      const int64_t blanks = size > 0 ? size - column % size : 0;
      const auto added = static_cast<size_t>(blanks);
      if (!call.budget.check_text(made.bytes.size() + added)) return {};
      made.append(std::string(added, ' '), false);
      column += blanks;
    } else {
      made.append(text, c.begin, c.end);
      column = c.value == '\n' || c.value == '\r' ? 0 : column + 1;
    }
  }
  return call.runtime.checked_text(std::move(made));
}

Value format_map_method(Call& call) {
  const Dict* dict = call[0].dict();
  if (dict == nullptr) return call.wrong_argument(0, "a mapping");
  Arguments arguments;
  for (const auto& [key, value] : dict->entries) {
    call.budget.spend(1);
    if (key.text() != nullptr) arguments.named.emplace_back(key.text()->bytes(), value);
  }
  return brace_format(call.runtime, *call.self.text(), arguments);
}

// Whether the text is not empty and the test holds for all its characters.
template <typename F>
bool all_of(Call& call, F&& holds) {
  for (const Character& c : Characters(own(call).bytes)) {
    if (!holds(c.value)) return false;
  }
  return !call.self.text()->bytes().empty();
}

template <bool (*kHolds)(char32_t)>
Value every(Call& call) {
  return all_of(call, kHolds);
}

bool is_alphanumeric(char32_t c) { return is_letter(c) || is_number(c) || is_digit(c); }

// Whether at least one character has this case, and no character has the other case.
template <Case kWanted>
Value has_case(Call& call) {
  bool found = false;
  const bool all = all_of(call, [&](char32_t c) {
    const Case own = case_of(c);
    found |= own == kWanted;
    return own == kWanted || own == Case::kNone;
  });
  return all && found;
}

// Whether all words begin with capitals, and there are no other capitals.
Value istitle(Call& call) {
  bool in_word = false;
  bool found = false;
  const bool all = all_of(call, [&](char32_t c) {
    const Case own = case_of(c);
    const bool was_in_word = std::exchange(in_word, own != Case::kNone);
    found |= in_word;
    return own == Case::kNone || (own == Case::kLower) == was_in_word;
  });
  return all && found;
}

Value isprintable(Call& call) {
  return call.self.text()->bytes().empty() || all_of(call, is_printable);
}

Value isidentifier(Call& call) {
  bool first = true;
  return all_of(call, [&](char32_t c) {
    const bool is_first = std::exchange(first, false);
    return c == '_' || is_letter(c) || (!is_first && is_word(c));
  });
}

constexpr Builtin kMethods[] = {
    {"capitalize", "", transformed<capitalize>},
    {"casefold", "", transformed<fold_case>},
    {"center", "width fillchar?", padded<Ends::kBoth>},
    {"count", "sub start? end?", count},
    {"endswith", "suffix start? end?", starts_or_ends<true>},
    {"expandtabs", "tabsize?", expandtabs},
    {"find", "sub start? end?", place<Ends::kLeft, false>},
    {"format", "*", [](Call& c) { return brace_format(c.runtime, *c.self.text(), c.arguments); }},
    {"format_map", "mapping", format_map_method},
    {"index", "sub start? end?", place<Ends::kLeft, true>},
    {"isalnum", "", every<is_alphanumeric>},
    {"isalpha", "", every<is_letter>},
    {"isascii", "", [](Call& c) { return Value(c.self.text()->is_ascii()); }},
    {"isdecimal", "", every<is_decimal>},
    {"isdigit", "", every<is_digit>},
    {"isidentifier", "", isidentifier},
    {"islower", "", has_case<Case::kLower>},
    {"isnumeric", "", every<is_number>},
    {"isprintable", "", isprintable},
    {"isspace", "", every<is_blank>},
    {"istitle", "", istitle},
    {"isupper", "", has_case<Case::kUpper>},
    {"join", "iterable", join},
    {"ljust", "width fillchar?", padded<Ends::kRight>},
    {"lower", "", transformed<to_lower>},
    {"lstrip", "chars?", stripped<Ends::kLeft>},
    {"partition", "sep", partition<Ends::kLeft>},
    {"removeprefix", "prefix", without_affix<false>},
    {"removesuffix", "suffix", without_affix<true>},
    {"replace", "old new count?", replace_method},
    {"rfind", "sub start? end?", place<Ends::kRight, false>},
    {"rindex", "sub start? end?", place<Ends::kRight, true>},
    {"rjust", "width fillchar?", padded<Ends::kLeft>},
    {"rpartition", "sep", partition<Ends::kRight>},
    {"rsplit", "sep? maxsplit?", split_method<Ends::kRight>},
    {"rstrip", "chars?", stripped<Ends::kRight>},
    {"split", "sep? maxsplit?", split_method<Ends::kLeft>},
    {"splitlines", "keepends?", splitlines},
    {"startswith", "prefix start? end?", starts_or_ends<false>},
    {"strip", "chars?", stripped<Ends::kBoth>},
    {"swapcase", "", transformed<swap_case>},
    {"title", "", transformed<title_case>},
    {"upper", "", transformed<to_upper>},
    {"zfill", "width", zfill},
};

}  // namespace

std::span<const Builtin> text_methods() { return kMethods; }

}  // namespace lockstep::jinja

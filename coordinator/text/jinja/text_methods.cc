// SPDX-License-Identifier: Apache-2.0
// The methods of Python's str, by code points.
#include <algorithm>

#include "coordinator/text/jinja/access.h"
#include "coordinator/text/jinja/builtin.h"
#include "coordinator/text/jinja/characters.h"
#include "coordinator/text/jinja/format.h"
#include "coordinator/text/jinja/text_parts.h"
#include "coordinator/text/jinja/transforms.h"

namespace lockstep::jinja {
namespace {

const MarkedText& own(Call& call) {
  const Text& text = *call.self.text();
  call.budget().scan(text.bytes().size());
  return text.content;
}

template <MarkedText (*kTransform)(const MarkedText&)>
Result transformed(Call& call) {
  return call.runtime.checked_text(kTransform(own(call)));
}

template <Ends kEnds>
Result stripped(Call& call) {
  std::optional<std::string_view> characters;
  if (call.given(0) != nullptr) {
    ASSIGN_OR_RETURN(const Text* set, call.text(0));
    call.budget().scan(set->bytes().size());
    characters = set->bytes();
  }
  return call.runtime.text(strip(own(call), characters, kEnds));
}

Result parts_of(Call& call, const MarkedText& text, const std::vector<ByteRange>& parts) {
  std::vector<Value> items;
  call.budget().spend(static_cast<int64_t>(parts.size()));
  for (const ByteRange& part : parts) {
    RETURN_IF_ERROR(call.budget().status());
    items.push_back(call.runtime.text(text.substr(part.begin, part.end)));
  }
  return call.runtime.list(std::move(items));
}

template <Ends kFrom>
Result split_method(Call& call) {
  const std::string* separator = nullptr;
  if (call.given(0) != nullptr) {
    ASSIGN_OR_RETURN(const Text* given, call.text(0));
    if (given->bytes().empty()) return invalid_argument("empty separator");
    separator = &given->bytes();
  }
  ASSIGN_OR_RETURN(const int64_t most, call.integer_or(1, -1));
  const MarkedText& text = own(call);
  return parts_of(call, text, split(text.bytes, separator, most, kFrom));
}

Result splitlines(Call& call) {
  const MarkedText& text = own(call);
  return parts_of(call, text, split_lines(text.bytes, call.truth_or(0, false)));
}

template <bool kLast>
Result partition(Call& call) {
  ASSIGN_OR_RETURN(const Text* separator, call.text(0));
  if (separator->bytes().empty()) return invalid_argument("empty separator");
  const MarkedText& text = own(call);
  const size_t found = kLast ? find_last_text(text.bytes, separator->bytes())
                             : find_text(text.bytes, separator->bytes(), 0);
  Runtime& runtime = call.runtime;
  if (found == std::string::npos) {
    Value whole = call.self;
    Value none = runtime.text("");
    return kLast ? runtime.tuple({none, none, whole}) : runtime.tuple({whole, none, none});
  }
  const size_t end = found + separator->bytes().size();
  return runtime.tuple({runtime.text(text.substr(0, found)), call[0],
                        runtime.text(text.substr(end, text.bytes.size()))});
}

Result replace_method(Call& call) {
  ASSIGN_OR_RETURN(const Text* old, call.text(0));
  ASSIGN_OR_RETURN(const Text* by, call.text(1));
  ASSIGN_OR_RETURN(const int64_t count, call.integer_or(2, -1));
  ASSIGN_OR_RETURN(MarkedText made,
                   replace(&call.budget(), own(call), old->bytes(), by->content, count));
  return call.runtime.text(std::move(made));
}

// The part of the text between the arguments `first` and `first` + 1, as bytes; nothing where it
// begins behind the text's end, where not even an empty text is found.
absl::StatusOr<std::optional<ByteRange>> searched(Call& call, size_t first) {
  const Text& text = *call.self.text();
  const auto bound = [&](size_t index, int64_t fallback) -> absl::StatusOr<int64_t> {
    if (call.given(index) == nullptr) return fallback;
    ASSIGN_OR_RETURN(const int64_t given, call.integer_or(index, fallback));
    return given < 0 ? std::max<int64_t>(given + text.length, 0) : given;
  };
  ASSIGN_OR_RETURN(const int64_t begin, bound(first, 0));
  ASSIGN_OR_RETURN(const int64_t end, bound(first + 1, text.length));
  call.budget().scan(text.bytes().size());
  const int64_t last = std::min(end, text.length);
  if (begin > last) return std::optional<ByteRange>();
  return std::optional<ByteRange>({byte_offset(text, begin), byte_offset(text, last)});
}

// The code point at which the argument is found, or -1.
template <bool kLast>
absl::StatusOr<int64_t> place(Call& call) {
  ASSIGN_OR_RETURN(const Text* wanted, call.text(0));
  ASSIGN_OR_RETURN(const auto range, searched(call, 1));
  if (!range.has_value()) return -1;
  const std::string_view text = call.self.text()->bytes();
  const std::string_view part = text.substr(range->begin, range->end - range->begin);
  const size_t found =
      kLast ? find_last_text(part, wanted->bytes()) : find_text(part, wanted->bytes(), 0);
  if (found == std::string_view::npos) return -1;
  return count_code_points(text.substr(0, range->begin + found));
}

template <bool kLast, bool kRequired>
Result find_method_(Call& call) {
  ASSIGN_OR_RETURN(const int64_t found, place<kLast>(call));
  if (kRequired && found < 0) return invalid_argument("substring not found");
  return found;
}

Result count(Call& call) {
  ASSIGN_OR_RETURN(const Text* wanted, call.text(0));
  ASSIGN_OR_RETURN(const auto range, searched(call, 1));
  if (!range.has_value()) return int64_t{0};
  const std::string_view part =
      std::string_view(call.self.text()->bytes()).substr(range->begin, range->end - range->begin);
  if (wanted->bytes().empty()) return count_code_points(part) + 1;
  const auto parts = split(part, &wanted->bytes(), -1, Ends::kLeft);
  return static_cast<int64_t>(parts.size()) - 1;
}

template <bool kAtEnd>
Result starts_or_ends(Call& call) {
  ASSIGN_OR_RETURN(const auto range, searched(call, 1));
  const auto matches = [&](const Text& wanted) {
    if (!range.has_value()) return false;
    const std::string_view part =
        std::string_view(call.self.text()->bytes()).substr(range->begin, range->end - range->begin);
    return kAtEnd ? part.ends_with(wanted.bytes()) : part.starts_with(wanted.bytes());
  };
  const Sequence* several = call[0].sequence();
  if (several == nullptr || several->type != Sequence::Type::kTuple) {
    ASSIGN_OR_RETURN(const Text* wanted, call.text(0));
    return matches(*wanted);
  }
  for (const Value& item : several->items) {
    if (item.text() == nullptr) return call.wrong_type(0, "a string or a tuple of strings");
    call.budget().spend(1);
    RETURN_IF_ERROR(call.budget().status());
    if (matches(*item.text())) return true;
  }
  return false;
}

template <bool kSuffix>
Result without_affix(Call& call) {
  ASSIGN_OR_RETURN(const Text* affix, call.text(0));
  const MarkedText& text = own(call);
  const size_t size = affix->bytes().size();
  if (kSuffix && size > 0 && text.bytes.ends_with(affix->bytes())) {
    return call.runtime.text(text.substr(0, text.bytes.size() - size));
  }
  if (!kSuffix && text.bytes.starts_with(affix->bytes())) {
    return call.runtime.text(text.substr(size, text.bytes.size()));
  }
  return call.self;
}

template <Ends kPadded>
Result padded(Call& call) {
  ASSIGN_OR_RETURN(const int64_t width, call.integer_or(0, 0));
  std::string_view fill = " ";
  if (call.has(1)) {
    ASSIGN_OR_RETURN(const Text* given, call.text(1));
    if (given->length != 1) return call.wrong_type(1, "one character");
    fill = given->bytes();
  }
  ASSIGN_OR_RETURN(MarkedText made,
                   pad(&call.budget(), own(call), call.self.text()->length, width, fill, kPadded));
  return call.runtime.text(std::move(made));
}

Result zfill(Call& call) {
  ASSIGN_OR_RETURN(const int64_t width, call.integer_or(0, 0));
  const MarkedText& text = own(call);
  const bool sign = text.bytes.starts_with('-') || text.bytes.starts_with('+');
  const size_t begin = sign ? 1 : 0;
  const int64_t shift = sign ? 1 : 0;
  ASSIGN_OR_RETURN(
      MarkedText digits,
      pad(&call.budget(), text.substr(begin, text.bytes.size()), call.self.text()->length - shift,
          std::max<int64_t>(width, shift) - shift, "0", Ends::kLeft));
  MarkedText made = text.substr(0, begin);
  made.append(digits);
  return call.runtime.text(std::move(made));
}

Result join(Call& call) {
  ASSIGN_OR_RETURN(const std::vector<Value> items, items_of(call.runtime, call[0]));
  MarkedText made;
  for (size_t i = 0; i < items.size(); ++i) {
    const Text* item = items[i].text();
    if (item == nullptr) {
      return invalid_argument("sequence item {}: expected str instance, {} found", i,
                              type_name(items[i]));
    }
    if (i > 0) made.append(call.self.text()->content);
    made.append(item->content);
    call.budget().spend(1);
    RETURN_IF_ERROR(call.budget().check_text(made.bytes.size()));
  }
  return call.runtime.text(std::move(made));
}

Result expandtabs(Call& call) {
  ASSIGN_OR_RETURN(const int64_t size, call.integer_or(0, 8));
  const MarkedText& text = own(call);
  MarkedText made;
  int64_t column = 0;
  for (size_t at = 0; at < text.bytes.size();) {
    const char c = text.bytes[at];
    size_t end = at + 1;
    while (end < text.bytes.size() && (text.bytes[end] & 0xC0) == 0x80) ++end;
    if (c == '\t') {
      const int64_t blanks = size > 0 ? size - column % size : 0;
      const int64_t most = call.budget().limits().text_bytes + 1;
      RETURN_IF_ERROR(call.budget().check_text(made.bytes.size() +
                                               static_cast<size_t>(std::min(blanks, most))));
      made.append(std::string(static_cast<size_t>(blanks), ' '), false);
      column += blanks;
    } else {
      made.append(text, at, end);
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
    at = end;
  }
  return call.runtime.checked_text(std::move(made));
}

Result format_map_method(Call& call) {
  const Dict* dict = call[0].dict();
  if (dict == nullptr) return call.wrong_type(0, "a mapping");
  Arguments arguments;
  for (const auto& [key, value] : dict->entries) {
    call.budget().spend(1);
    if (key.text() != nullptr) arguments.named.emplace_back(key.text()->bytes(), value);
  }
  return brace_format(call.runtime, *call.self.text(), arguments);
}

Result format_method(Call& call) {
  return brace_format(call.runtime, *call.self.text(), call.arguments);
}

constexpr Builtin kMethods[] = {
    {"capitalize", "", transformed<capitalize>},
    {"casefold", "", transformed<fold_case>},
    {"center", "width fillchar?", padded<Ends::kBoth>},
    {"count", "sub start? end?", count},
    {"endswith", "suffix start? end?", starts_or_ends<true>},
    {"expandtabs", "tabsize?", expandtabs},
    {"find", "sub start? end?", find_method_<false, false>},
    {"format", "*", format_method},
    {"format_map", "mapping", format_map_method},
    {"index", "sub start? end?", find_method_<false, true>},
    {"join", "iterable", join},
    {"ljust", "width fillchar?", padded<Ends::kRight>},
    {"lower", "", transformed<to_lower>},
    {"lstrip", "chars?", stripped<Ends::kLeft>},
    {"partition", "sep", partition<false>},
    {"removeprefix", "prefix", without_affix<false>},
    {"removesuffix", "suffix", without_affix<true>},
    {"replace", "old new count?", replace_method},
    {"rfind", "sub start? end?", find_method_<true, false>},
    {"rindex", "sub start? end?", find_method_<true, true>},
    {"rjust", "width fillchar?", padded<Ends::kLeft>},
    {"rpartition", "sep", partition<true>},
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

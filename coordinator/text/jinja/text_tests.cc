// SPDX-License-Identifier: Apache-2.0
// str.isalpha and its relatives: methods that ask something of every character.
#include "coordinator/text/jinja/builtin.h"
#include "coordinator/text/jinja/characters.h"
#include "coordinator/text/unicode.h"

namespace lockstep::jinja {
namespace {

// Whether the test holds for all characters, of which there has to be one.
template <typename F>
bool all_of(Call& call, F&& holds) {
  const std::string& bytes = call.self.text()->bytes();
  call.budget().scan(bytes.size());
  for (size_t at = 0; at < bytes.size();) {
    const CodePoint point = code_point_at(bytes, at);
    if (!holds(point.value)) return false;
    at += point.bytes;
  }
  return !bytes.empty();
}

template <bool (*kHolds)(char32_t)>
Result every(Call& call) {
  return all_of(call, kHolds);
}

bool is_alphanumeric(char32_t c) { return is_alphabetic(c) || is_numeric(c) || is_digit(c); }

// Some character has the case, and none the other one.
template <Case kWanted>
Result has_case(Call& call) {
  bool found = false;
  const bool all = all_of(call, [&](char32_t c) {
    const Case own = case_of(c);
    found |= own == kWanted;
    return own == kWanted || own == Case::kNone;
  });
  return all && found;
}

// Capitals begin words, and only they do.
Result istitle(Call& call) {
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

Result isascii(Call& call) { return call.self.text()->is_ascii(); }

Result isprintable(Call& call) {
  return call.self.text()->bytes().empty() || all_of(call, is_printable);
}

Result isidentifier(Call& call) {
  bool first = true;
  return all_of(call, [&](char32_t c) {
    const bool fits = c == '_' || is_alphabetic(c) || (!first && is_word(c));
    first = false;
    return fits;
  });
}

constexpr Builtin kMethods[] = {
    {"isalnum", "", every<is_alphanumeric>},
    {"isalpha", "", every<is_alphabetic>},
    {"isascii", "", isascii},
    {"isdecimal", "", every<is_decimal>},
    {"isdigit", "", every<is_digit>},
    {"isidentifier", "", isidentifier},
    {"islower", "", has_case<Case::kLower>},
    {"isnumeric", "", every<is_numeric>},
    {"isprintable", "", isprintable},
    {"isspace", "", every<is_blank>},
    {"istitle", "", istitle},
    {"isupper", "", has_case<Case::kUpper>},
};

}  // namespace

std::span<const Builtin> text_tests() { return kMethods; }

}  // namespace lockstep::jinja

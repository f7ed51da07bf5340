// SPDX-License-Identifier: Apache-2.0
// Reads the sets of characters in a pattern: escapes, properties and classes. Used only by
// parse_regex().
#pragma once

#include <optional>
#include <string_view>

#include "base/status.h"
#include "coordinator/text/unicode/code_point_set.h"

namespace lockstep {

// A position in a pattern that moves forward.
struct RegexCursor {
  std::string_view pattern;
  size_t at = 0;

  bool done() const { return at >= pattern.size(); }
  std::string_view rest() const { return pattern.substr(at); }
  bool next_is(std::string_view wanted) const { return rest().starts_with(wanted); }
  bool take(std::string_view wanted) {
    if (!next_is(wanted)) return false;
    at += wanted.size();
    return true;
  }
  char32_t take_character();  // The cursor must not be done.
};

// Returns kUnimplemented, which names the construct: Oniguruma's own engine must match the pattern.
absl::Status leave_to_oniguruma(std::string_view construct);

// One character, or a set of them.
struct RegexMember {
  std::optional<char32_t> character;
  CodePointSet set;
};

// Reads an escape, with the cursor after its backslash; some escapes have another meaning in a
// class.
absl::StatusOr<RegexMember> parse_set_escape(RegexCursor* cursor, bool in_class);

// A class of a pattern. `negated`: it begins with "^", which is not yet applied to `set`.
struct RegexClass {
  CodePointSet set;
  bool negated = false;
};
// Reads a class, with the cursor after its "[".
absl::StatusOr<RegexClass> parse_class(RegexCursor* cursor, int depth);

}  // namespace lockstep

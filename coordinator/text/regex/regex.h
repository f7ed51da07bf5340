// SPDX-License-Identifier: Apache-2.0
// A compiled regular expression of Oniguruma's dialect, with the meaning that it has in Hugging
// Face tokenizers.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "coordinator/text/regex/regex_program.h"
#include "coordinator/text/unicode/oniguruma.h"

namespace lockstep {

// A part of a text, from `begin` to before `end`: either a match or the text between two matches.
struct Span {
  size_t begin;
  size_t end;
  bool is_match;
};

inline constexpr size_t kMaxPatternBytes = 4096;

// Immutable once compiled, for any thread; does not keep the pattern's text.
class Regex {
 public:
  static absl::StatusOr<Regex> compile(std::string_view pattern);

  // Splits the text at all matches, from left to right; the spans cover the text. An empty text is
  // one span that does not match. If is_linear(), the time is linear in the text and there is no
  // error; else kResourceExhausted if the search takes too long. The text must be well-formed
  // UTF-8.
  absl::StatusOr<std::vector<Span>> find_all(std::string_view text) const;

  // False for patterns that only Oniguruma matches: back references, calls, absent groups.
  bool is_linear() const { return program_ != nullptr; }

 private:
  // Shared, so that patterns can be copied.
  std::shared_ptr<const RegexProgram> program_;
  std::optional<OnigurumaRegex> oniguruma_;  // Set if there is no program.
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// A compiled regular expression with the meaning that it has in the reference, run by PCRE2 under
// limits.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

struct pcre2_real_code_8;

namespace lockstep {

// A part of a text, from `begin` to before `end`, and whether it is a match or what is between
// two.
struct Span {
  size_t begin;
  size_t end;
  bool is_match;
};

// Immutable once compiled, for any thread; keeps nothing of the pattern's text.
class Regex {
 public:
  static absl::StatusOr<Regex> compile(std::string_view pattern);

  // Cuts the text at all matches, from left to right; the spans cover it. A text of no bytes is one
  // span that does not match. ResourceExhausted when the search takes too long. Wants well-formed
  // UTF-8.
  absl::StatusOr<std::vector<Span>> find_all(std::string_view text) const;

 private:
  struct Free {
    void operator()(pcre2_real_code_8* code) const;
  };
  explicit Regex(pcre2_real_code_8* code) : code_(code, Free()) {}

  std::shared_ptr<pcre2_real_code_8> code_;  // Shared so that patterns can be copied.
};

}  // namespace lockstep

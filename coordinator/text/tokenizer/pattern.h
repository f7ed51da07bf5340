// SPDX-License-Identifier: Apache-2.0
// The pattern of a normalizer, a pre-tokenizer or a decoder: a string or a regular expression.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "coordinator/text/regex/regex.h"
#include "coordinator/text/regex/split_scanners.h"

namespace lockstep {

// Immutable once made, for any thread.
class Pattern {
 public:
  // {"String": "..."} or {"Regex": "..."}. `what` names its owner in errors.
  static absl::StatusOr<Pattern> from_json(const Json& spec, std::string_view what);
  static absl::StatusOr<Pattern> from_regex(std::string_view regex);
  static Pattern from_string(std::string_view literal);

  // Splits the text at all matches; the spans cover it, see Regex::find_all().
  absl::StatusOr<std::vector<Span>> find_all(std::string_view text) const;

  // Replaces every match. kResourceExhausted: the result has more than `limit` bytes.
  absl::StatusOr<std::string> replace_all(std::string_view text, std::string_view content,
                                          size_t limit = std::string_view::npos) const;

 private:
  Pattern() = default;

  std::string literal_;  // Not empty if this is a string.
  Scanner scanner_ = nullptr;
  std::optional<Regex> regex_;
};

}  // namespace lockstep

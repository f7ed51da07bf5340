// SPDX-License-Identifier: Apache-2.0
// How one value is formatted: what is behind the ":" of "{:>8.2f}", and what "%08.2f" says.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "coordinator/text/jinja/runtime.h"

namespace lockstep::jinja {

struct FormatSpec {
  std::string fill = " ";  // One character.
  char align = '\0';       // '<', '>', '^', '=' (between sign and digits); none: by the type.
  char sign = '-';         // '+', '-' or ' '.
  bool alternate = false;
  char grouping = '\0';  // ',' or '_' between thousands.
  int64_t width = 0;
  std::optional<int64_t> precision;
  char type = '\0';
};

absl::StatusOr<FormatSpec> parse_format_spec(std::string_view text);

// Reads digits at the beginning of the text and takes them away.
absl::StatusOr<std::optional<int64_t>> take_digits(std::string_view* text);

// Texts and numbers only.
absl::StatusOr<MarkedText> apply_format(Runtime& runtime, const FormatSpec& spec,
                                        const Value& value);

// The text in its field.
absl::StatusOr<MarkedText> fill_field(Runtime& runtime, const FormatSpec& spec,
                                      const MarkedText& text);

}  // namespace lockstep::jinja

// SPDX-License-Identifier: Apache-2.0
#include "coordinator/text/jinja/format_spec.h"

#include <algorithm>
#include <cmath>

#include "coordinator/text/jinja/characters.h"
#include "coordinator/text/jinja/show.h"
#include "coordinator/text/jinja/transforms.h"
#include "coordinator/text/unicode.h"

namespace lockstep::jinja {
namespace {

constexpr int64_t kMaxPrecision = 1'000;

bool is_align(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

std::string integer_digits(uint64_t value, const FormatSpec& spec) {
  switch (spec.type) {
    case 'b':
      return fmt::format("{}{:b}", spec.alternate ? "0b" : "", value);
    case 'o':
      return fmt::format("{}{:o}", spec.alternate ? "0o" : "", value);
    case 'x':
      return fmt::format("{}{:x}", spec.alternate ? "0x" : "", value);
    case 'X':
      return fmt::format("{}{:X}", spec.alternate ? "0X" : "", value);
    default:
      return std::to_string(value);
  }
}

absl::StatusOr<std::string> float_digits(double value, const FormatSpec& spec) {
  const int64_t precision = spec.precision.value_or(6);
  if (precision > kMaxPrecision) {
    return invalid_argument("a precision of more than {} digits", kMaxPrecision);
  }
  const auto digits = static_cast<int>(precision);
  switch (spec.type) {
    case 'e':
      return fmt::format("{:.{}e}", value, digits);
    case 'E':
      return fmt::format("{:.{}E}", value, digits);
    case 'f':
    case 'F':
      return fmt::format("{:.{}f}", value, digits);
    case 'g':
    case 'n':
      return fmt::format("{:.{}g}", value, std::max(digits, 1));
    case 'G':
      return fmt::format("{:.{}G}", value, std::max(digits, 1));
    case '%':
      return fmt::format("{:.{}f}%", value * 100, digits);
    case '\0':
      if (!spec.precision.has_value()) return show_float(value);
      break;
    default:
      return invalid_argument("Unknown format code '{}' for object of type 'float'", spec.type);
  }
  std::string text = fmt::format("{:.{}g}", value, std::max(digits, 1));
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

// A "," or "_" before each third digit of the whole part.
std::string grouped(const std::string& digits, char grouping) {
  const size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
  std::string made;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && i < whole && (whole - i) % 3 == 0) made += grouping;
    made += digits[i];
  }
  return made;
}

absl::StatusOr<std::string> unsigned_number(const FormatSpec& spec, const Value& value) {
  constexpr std::string_view kFloatTypes = "eEfFgG%";
  const bool as_float = value.is<double>() || (spec.type != '\0' && kFloatTypes.find(spec.type) !=
                                                                        std::string_view::npos);
  if (as_float) return float_digits(std::fabs(value.number()), spec);
  if (spec.precision.has_value()) {
    return invalid_argument("Precision not allowed in integer format specifier");
  }
  constexpr std::string_view kIntegerTypes = "bdonxX";
  if (spec.type != '\0' && kIntegerTypes.find(spec.type) == std::string_view::npos) {
    return invalid_argument("Unknown format code '{}' for object of type 'int'", spec.type);
  }
  const int64_t integer = value.integer();
  const auto bits = static_cast<uint64_t>(integer);
  return integer_digits(integer < 0 ? -bits : bits, spec);
}

absl::StatusOr<MarkedText> format_number(Runtime& runtime, const FormatSpec& spec,
                                         const Value& value) {
  ASSIGN_OR_RETURN(std::string digits, unsigned_number(spec, value));
  if (spec.grouping != '\0') digits = grouped(digits, spec.grouping);
  const bool negative = value.is<double>()
                            ? std::signbit(value.number()) && !std::isnan(value.number())
                            : value.integer() < 0;
  const std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  FormatSpec field = spec;
  if (field.align == '\0') field.align = '>';
  if (field.align != '=')
    return fill_field(runtime, field, MarkedText::of(fmt::format("{}{}", sign, digits), false));
  field.align = '>';
  field.width -= static_cast<int64_t>(sign.size());
  ASSIGN_OR_RETURN(const MarkedText filled,
                   fill_field(runtime, field, MarkedText::of(digits, false)));
  MarkedText made = MarkedText::of(sign, false);
  made.append(filled);
  return made;
}

}  // namespace

absl::StatusOr<std::optional<int64_t>> take_digits(std::string_view* text) {
  int64_t value = 0;
  size_t count = 0;
  for (; count < text->size() && (*text)[count] >= '0' && (*text)[count] <= '9'; ++count) {
    if (count == 9) return invalid_argument("too many decimal digits in a format");
    value = value * 10 + ((*text)[count] - '0');
  }
  text->remove_prefix(count);
  return count == 0 ? std::nullopt : std::optional<int64_t>(value);
}

absl::StatusOr<FormatSpec> parse_format_spec(std::string_view text) {
  FormatSpec spec;
  const size_t first = text.empty() ? 0 : code_point_at(text, 0).bytes;
  if (text.size() > first && is_align(text[first])) {
    spec.fill = text.substr(0, first);
    spec.align = text[first];
    text.remove_prefix(first + 1);
  } else if (!text.empty() && is_align(text[0])) {
    spec.align = text[0];
    text.remove_prefix(1);
  }
  const auto take = [&text](std::string_view choices) {
    if (text.empty() || choices.find(text[0]) == std::string_view::npos) return '\0';
    const char taken = text[0];
    text.remove_prefix(1);
    return taken;
  };
  if (const char sign = take("+- ")) spec.sign = sign;
  spec.alternate = take("#") != '\0';
  if (take("0") != '\0' && spec.align == '\0') {
    spec.fill.assign(1, '0');
    spec.align = '=';
  }
  ASSIGN_OR_RETURN(const auto width, take_digits(&text));
  spec.width = width.value_or(0);
  spec.grouping = take(",_");
  if (take(".") != '\0') {
    ASSIGN_OR_RETURN(spec.precision, take_digits(&text));
    if (!spec.precision.has_value()) return invalid_argument("Format specifier missing precision");
  }
  spec.type = take("bcdeEfFgGnosxX%");
  if (!text.empty()) return invalid_argument("Invalid format specifier");
  return spec;
}

absl::StatusOr<MarkedText> fill_field(Runtime& runtime, const FormatSpec& spec,
                                      const MarkedText& text) {
  const int64_t length = count_code_points(text.bytes);
  const int64_t missing = std::max<int64_t>(spec.width - length, 0);
  Budget* budget = &runtime.budget;
  if (spec.align == '>') return pad(budget, text, length, spec.width, spec.fill, Ends::kLeft);
  if (spec.align != '^') return pad(budget, text, length, spec.width, spec.fill, Ends::kRight);
  ASSIGN_OR_RETURN(const MarkedText left,
                   pad(budget, text, length, length + missing / 2, spec.fill, Ends::kLeft));
  return pad(budget, left, length + missing / 2, length + missing, spec.fill, Ends::kRight);
}

absl::StatusOr<MarkedText> apply_format(Runtime& runtime, const FormatSpec& spec,
                                        const Value& value) {
  if (value.is_number() && spec.type != 's') return format_number(runtime, spec, value);
  if (value.is_number()) {
    return invalid_argument("Unknown format code 's' for object of type '{}'", type_name(value));
  }
  if (spec.type != '\0' && spec.type != 's') {
    return invalid_argument("Unknown format code '{}' for object of type '{}'", spec.type,
                            type_name(value));
  }
  if (spec.align == '=') {
    return invalid_argument("'=' alignment not allowed in string format specifier");
  }
  ASSIGN_OR_RETURN(MarkedText text, str_of(runtime, value));
  if (spec.precision.has_value() && *spec.precision < count_code_points(text.bytes)) {
    size_t end = 0;
    for (int64_t i = 0; i < *spec.precision; ++i) end += code_point_at(text.bytes, end).bytes;
    text.truncate(end);
  }
  return fill_field(runtime, spec, text);
}

}  // namespace lockstep::jinja

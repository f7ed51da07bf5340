// SPDX-License-Identifier: Apache-2.0
#include "coordinator/text/jinja/values/format.h"

#include <algorithm>
#include <cmath>

#include "coordinator/text/jinja/strings/characters.h"
#include "coordinator/text/jinja/strings/transforms.h"
#include "coordinator/text/unicode/unicode.h"

namespace lockstep::jinja {
namespace {

constexpr int64_t kMaxPrecision = 1'000;

bool is_one_of(char c, std::string_view choices) {
  return choices.find(c) != std::string_view::npos;
}

std::string integer_digits(uint64_t value, const FormatSpec& spec) {
  switch (spec.type) {
    case 'b':
      return spec.alternate ? fmt::format("{:#b}", value) : fmt::format("{:b}", value);
    case 'o':
      return fmt::format("{}{:o}", spec.alternate ? "0o" : "", value);
    case 'x':
      return spec.alternate ? fmt::format("{:#x}", value) : fmt::format("{:x}", value);
    case 'X':
      return spec.alternate ? fmt::format("{:#X}", value) : fmt::format("{:X}", value);
    default:
      return std::to_string(value);
  }
}

std::string float_digits(Budget& budget, double value, const FormatSpec& spec) {
  const int64_t precision = spec.precision.value_or(6);
  if (precision > kMaxPrecision) {
    return budget.refuse("a precision of more than {} digits", kMaxPrecision);
  }
  if (spec.type == '\0' && !spec.precision.has_value()) return show_float(value);
  if (!is_one_of(spec.type, {"\0eEfFgGn%", 9})) {
    return budget.refuse("Unknown format code '{}' for object of type 'float'", spec.type);
  }
  const bool general = is_one_of(spec.type, {"\0gGn", 4});
  const char type = spec.type == 'G' || spec.type == 'E' ? spec.type
                    : general                            ? 'g'
                    : spec.type == 'e'                   ? 'e'
                                                         : 'f';
  const auto digits = static_cast<int>(general ? std::max<int64_t>(precision, 1) : precision);
  std::string text = fmt::format(fmt::runtime(fmt::format("{{:.{}{}}}", digits, type)),
                                 spec.type == '%' ? value * 100 : value);
  if (spec.type == '%') text += '%';
  if (spec.type == '\0' && text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

// Puts a "," or "_" before each third digit of the whole part.
std::string grouped(const std::string& digits, char grouping) {
  const size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
  std::string made;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && i < whole && (whole - i) % 3 == 0) made += grouping;
    made += digits[i];
  }
  return made;
}

std::string unsigned_number(Budget& budget, const FormatSpec& spec, const Value& value) {
  if (value.is<double>() || is_one_of(spec.type, "eEfFgG%")) {
    return float_digits(budget, std::fabs(value.number()), spec);
  }
  if (spec.precision.has_value()) {
    return budget.refuse("Precision not allowed in integer format specifier");
  }
  if (!is_one_of(spec.type, {"\0bdonxX", 7})) {
    return budget.refuse("Unknown format code '{}' for object of type 'int'", spec.type);
  }
  const auto bits = static_cast<uint64_t>(value.integer());
  return integer_digits(value.integer() < 0 ? -bits : bits, spec);
}

// The text, padded to its field.
MarkedText fill_field(Budget& budget, const FormatSpec& spec, const MarkedText& text) {
  if (spec.align == '>') return pad(budget, text, spec.width, spec.fill, Ends::kLeft);
  if (spec.align != '^') return pad(budget, text, spec.width, spec.fill, Ends::kRight);
  const int64_t length = count_characters(text.bytes);
  const int64_t left = length + std::max<int64_t>(spec.width - length, 0) / 2;
  return pad(budget, pad(budget, text, left, spec.fill, Ends::kLeft), spec.width, spec.fill,
             Ends::kRight);
}

MarkedText format_number(Budget& budget, const FormatSpec& spec, const Value& value) {
  std::string digits = unsigned_number(budget, spec, value);
  if (spec.grouping != '\0') digits = grouped(digits, spec.grouping);
  const bool negative = value.is<double>()
                            ? std::signbit(value.number()) && !std::isnan(value.number())
                            : value.integer() < 0;
  const std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  FormatSpec field = spec;
  if (spec.align == '\0' || spec.align == '=') field.align = '>';
  if (spec.align != '=') return fill_field(budget, field, MarkedText::of(sign + digits, false));
  field.width -= static_cast<int64_t>(sign.size());
  MarkedText made = MarkedText::of(sign, false);
  made.append(fill_field(budget, field, MarkedText::of(digits, false)));
  return made;
}

}  // namespace

std::optional<int64_t> take_digits(Budget& budget, std::string_view* text) {
  int64_t value = 0;
  size_t count = 0;
  for (; count < text->size() && is_one_of((*text)[count], "0123456789"); ++count) {
    if (count == 9) {
      budget.refuse("too many decimal digits in a format");
      return std::nullopt;
    }
    value = value * 10 + ((*text)[count] - '0');
  }
  text->remove_prefix(count);
  return count == 0 ? std::nullopt : std::optional<int64_t>(value);
}

FormatSpec parse_format_spec(Budget& budget, std::string_view text) {
  constexpr std::string_view kAligns = "<>^=";
  FormatSpec spec;
  const auto take = [&text](std::string_view choices) {
    if (text.empty() || !is_one_of(text[0], choices)) return '\0';
    const char taken = text[0];
    text.remove_prefix(1);
    return taken;
  };
  const size_t first = text.empty() ? 0 : code_point_at(text, 0).bytes;
  if (text.size() > first && is_one_of(text[first], kAligns)) {
    spec.fill = text.substr(0, first);
    text.remove_prefix(first);
  }
  spec.align = take(kAligns);
  if (const char sign = take("+- ")) spec.sign = sign;
  spec.alternate = take("#") != '\0';
  if (take("0") != '\0' && spec.align == '\0') {
    spec.fill.assign(1, '0');
    spec.align = '=';
  }
  spec.width = take_digits(budget, &text).value_or(0);
  spec.grouping = take(",_");
  if (take(".") != '\0') {
    spec.precision = take_digits(budget, &text);
    if (!spec.precision.has_value()) budget.refuse("Format specifier missing precision");
  }
  spec.type = take("bcdeEfFgGnosxX%");
  if (!text.empty()) budget.refuse("Invalid format specifier");
  return spec;
}

MarkedText apply_format(Runtime& runtime, const FormatSpec& spec, const Value& value) {
  Budget& budget = runtime.budget;
  const bool is_number = value.is_number();
  if (is_number && spec.type != 's') return format_number(budget, spec, value);
  if (is_number || !is_one_of(spec.type, {"\0s", 2})) {
    return budget.refuse("Unknown format code '{}' for object of type '{}'", spec.type,
                         value.type_name());
  }
  if (spec.align == '=') {
    return budget.refuse("'=' alignment not allowed in string format specifier");
  }
  MarkedText text = str_of(runtime, value);
  if (spec.precision.has_value() && *spec.precision < count_characters(text.bytes)) {
    text.truncate(byte_offset(text.bytes, *spec.precision));
  }
  return fill_field(budget, spec, text);
}

}  // namespace lockstep::jinja

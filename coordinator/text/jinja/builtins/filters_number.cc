// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cmath>
#include <optional>

#include "coordinator/text/jinja/strings/characters.h"
#include "coordinator/text/jinja/values/builtin.h"
#include "coordinator/text/jinja/values/operators.h"

namespace lockstep::jinja {
namespace {

// Removes blanks at the ends and single "_" between digits; nullopt if there is another "_".
std::optional<std::string> digits_of(std::string_view text) {
  const size_t begin = blanks_end(text, 0);
  const size_t end = blanks_begin(text);
  const auto is_digit_at = [&](size_t i) {
    return i < end && std::isalnum(static_cast<unsigned char>(text[i])) != 0;
  };
  std::string digits;
  for (size_t at = begin; at < end; ++at) {
    if (text[at] != '_') {
      digits.push_back(text[at]);
    } else if (at == begin || !is_digit_at(at - 1) || !is_digit_at(at + 1)) {
      return std::nullopt;
    }
  }
  return digits;
}

// Python's int() of a text; nullopt if the text is not an integer of 64 bits. Prefixes are read for
// base 0, 2, 8 and 16.
std::optional<int64_t> parse_integer(std::string_view text, int64_t base) {
  const auto cleaned = digits_of(text);
  if (!cleaned.has_value() || base == 1 || base < 0 || base > 36) return std::nullopt;
  std::string_view digits = *cleaned;
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.remove_prefix(1);
  const char letter = digits.size() > 2 && digits[0] == '0' ? static_cast<char>(digits[1] | 32) : 0;
  const int64_t prefixed = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
  if (prefixed != 0 && (base == 0 || base == prefixed)) {
    digits.remove_prefix(2);
    base = prefixed;
  }
  if (base == 0) base = 10;
  if (digits.starts_with('-')) return std::nullopt;
  const std::string signed_digits = fmt::format("{}{}", negative ? "-" : "", digits);
  int64_t value = 0;
  const char* end = signed_digits.data() + signed_digits.size();
  const auto parsed = std::from_chars(signed_digits.data(), end, value, static_cast<int>(base));
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return value;
}

// Python's float() of a text.
std::optional<double> parse_float(std::string_view text) {
  const auto cleaned = digits_of(text);
  if (!cleaned.has_value()) return std::nullopt;
  std::string_view digits = *cleaned;
  if (digits.starts_with('+')) digits.remove_prefix(1);
  if (digits.starts_with('+') || digits.size() > 1'000) return std::nullopt;
  double value = 0;
  const char* end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, value);
  if (parsed.ptr != end || digits.empty() || digits.find('(') != std::string_view::npos) {
    return std::nullopt;
  }
  if (parsed.ec == std::errc::result_out_of_range) {
    return std::strtod(std::string(digits).c_str(), nullptr);
  }
  return value;
}

Value rounded_integer(Budget& budget, int64_t value, int64_t precision) {
  if (precision >= 0) return value;
  if (precision < -18) return int64_t{0};
  int64_t unit = 1;
  for (int64_t i = precision; i < 0; ++i) unit *= 10;
  const int64_t rest = (value % unit + unit) % unit;
  const int64_t down = value - rest;
  const bool up = rest > unit / 2 || (rest == unit / 2 && (down / unit) % 2 != 0);
  int64_t result = down;
  if (up && __builtin_add_overflow(down, unit, &result)) {
    return budget.refuse("the result is not an integer of 64 bits");
  }
  return result;
}

// Correctly rounded, half to even, from the exact decimal digits.
double rounded_float(double value, int64_t precision) {
  if (!std::isfinite(value) || precision > 400) return value;
  if (precision < -400) return std::copysign(0.0, value);
  if (precision >= 0) {
    return std::strtod(fmt::format("{:.{}f}", value, precision).c_str(), nullptr);
  }
  const double unit = std::pow(10.0, static_cast<double>(-precision));
  return std::isinf(unit) ? std::copysign(0.0, value) : std::nearbyint(value / unit) * unit;
}

Value round_filter(Call& call) {
  const Value& self = call.self;
  const int64_t precision = call.integer_or(0, 0);
  const std::string_view method = call.text_or(1, "common");
  if (method != "common" && method != "ceil" && method != "floor") {
    return call.budget.refuse("method must be common, ceil or floor");
  }
  if (!self.is_number()) {
    return wrong_type(call.budget, self, "round: must be a number, found {}", self.type_name());
  }
  if (method == "common") {
    return self.is_integer() ? rounded_integer(call.budget, self.integer(), precision)
                             : rounded_float(self.number(), precision);
  }
  const double unit = std::pow(10.0, static_cast<double>(precision));
  const double scaled = self.number() * unit;
  // Python rounds to an integer, which has no -0.
  const double whole = (method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) + 0.0;
  return whole / unit;
}

Value absolute(Call& call) {
  const Value& self = call.self;
  if (self.is<double>()) return std::fabs(self.number());
  if (!self.is_integer()) {
    return wrong_type(call.budget, self, "bad operand type for abs(): '{}'", self.type_name());
  }
  return self.integer() < 0 ? negative(call.budget, self) : positive(call.budget, self);
}

Value truncated(Budget& budget, double value, const Value& fallback) {
  if (!std::isfinite(value)) return fallback;
  if (std::fabs(value) >= 0x1p63) return budget.refuse("an integer of more than 64 bits");
  return static_cast<int64_t>(value);
}

Value int_filter(Call& call) {
  const Value& self = call.self;
  const Value fallback = call.value_or(0, int64_t{0});
  const int64_t base = call.integer_or(1, 10);
  if (self.is_undefined()) return call.budget.fail(self.undefined_error());
  if (self.is_integer()) return self.integer();
  if (self.is<Unsigned>()) return self;
  if (self.is<double>()) {
    if (std::isinf(self.number())) {
      return call.budget.refuse("cannot convert float infinity to integer");
    }
    return truncated(call.budget, self.number(), fallback);
  }
  if (self.text() == nullptr) return fallback;
  const std::string& text = self.text()->bytes();
  call.budget.scan(text.size());
  if (const auto value = parse_integer(text, base)) return *value;
  const auto value = parse_float(text);
  return value.has_value() ? truncated(call.budget, *value, fallback) : fallback;
}

Value float_filter(Call& call) {
  const Value& self = call.self;
  if (self.is_undefined()) return call.budget.fail(self.undefined_error());
  if (self.is_number()) return self.number();
  if (const auto* wide = self.get_if<Unsigned>()) return static_cast<double>(*wide);
  const Text* text = self.text();
  call.budget.scan(text == nullptr ? 0 : text->bytes().size());
  const auto value = text == nullptr ? std::nullopt : parse_float(text->bytes());
  return value.has_value() ? Value(*value) : call.value_or(0, 0.0);
}

constexpr Builtin kFilters[] = {
    {"abs", "", absolute},
    {"float", "default?", float_filter},
    {"int", "default? base?", int_filter},
    {"round", "precision? method?", round_filter},
};

}  // namespace

std::span<const Builtin> number_filters() { return kFilters; }

}  // namespace lockstep::jinja

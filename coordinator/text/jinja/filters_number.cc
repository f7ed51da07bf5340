// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cmath>

#include "coordinator/text/jinja/builtin.h"
#include "coordinator/text/jinja/characters.h"
#include "coordinator/text/jinja/numbers.h"
#include "coordinator/text/jinja/operators.h"

namespace lockstep::jinja {
namespace {

// Without blanks at the ends and single "_" between digits; nothing where a "_" is elsewhere.
std::optional<std::string> digits_of(std::string_view text) {
  const size_t begin = blanks_end(text, 0);
  const size_t end = blanks_begin(text);
  std::string digits;
  for (size_t at = begin; at < end; ++at) {
    const auto is_digit_at = [&](size_t i) {
      return i < end && std::isalnum(static_cast<unsigned char>(text[i])) != 0;
    };
    if (text[at] != '_') {
      digits.push_back(text[at]);
    } else if (at == begin || !is_digit_at(at - 1) || !is_digit_at(at + 1)) {
      return std::nullopt;
    }
  }
  return digits;
}

Result rounded_integer(int64_t value, int64_t precision) {
  if (precision >= 0) return value;
  if (precision < -18) return int64_t{0};
  int64_t unit = 1;
  for (int64_t i = precision; i < 0; ++i) unit *= 10;
  const int64_t rest = (value % unit + unit) % unit;
  const int64_t down = value - rest;
  const bool up = rest > unit / 2 || (rest == unit / 2 && (down / unit) % 2 != 0);
  int64_t result = down;
  if (up && __builtin_add_overflow(down, unit, &result)) {
    return invalid_argument("the result is no integer of 64 bits");
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

Result round_filter(Call& call) {
  ASSIGN_OR_RETURN(const int64_t precision, call.integer_or(0, 0));
  std::string method = "common";
  if (call.has(1)) {
    ASSIGN_OR_RETURN(const Text* given, call.text(1));
    method = given->bytes();
  }
  if (method != "common" && method != "ceil" && method != "floor") {
    return invalid_argument("method must be common, ceil or floor");
  }
  if (call.self.is_undefined()) return undefined_error(call.self);
  if (!call.self.is_number()) {
    return invalid_argument("round: wanted a number, not {}", type_name(call.self));
  }
  if (method == "common") {
    if (call.self.is_integer()) return rounded_integer(call.self.integer(), precision);
    return rounded_float(call.self.number(), precision);
  }
  const double unit = std::pow(10.0, static_cast<double>(precision));
  const double scaled = call.self.number() * unit;
  // Python rounds to an integer here, which has no -0.
  const double whole = (method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) + 0.0;
  return whole / unit;
}

Result absolute(Call& call) {
  if (call.self.is_integer()) {
    return call.self.integer() < 0 ? negative(call.self) : positive(call.self);
  }
  if (call.self.is<double>()) return std::fabs(call.self.number());
  if (call.self.is_undefined()) return undefined_error(call.self);
  return invalid_argument("bad operand type for abs(): '{}'", type_name(call.self));
}

Result truncated(double value, Result fallback) {
  if (!std::isfinite(value)) return fallback;
  if (std::fabs(value) >= 0x1p63) return invalid_argument("an integer of more than 64 bits");
  return static_cast<int64_t>(value);
}

Result int_filter(Call& call) {
  const Value fallback = call.has(0) ? call[0] : Value(int64_t{0});
  ASSIGN_OR_RETURN(const int64_t base, call.integer_or(1, 10));
  if (call.self.is_undefined()) return undefined_error(call.self);
  if (call.self.is_integer()) return call.self.integer();
  if (call.self.is<Unsigned>()) return call.self;
  if (call.self.is<double>()) {
    if (std::isinf(call.self.number())) {
      return invalid_argument("cannot convert float infinity to integer");
    }
    return truncated(call.self.number(), fallback);
  }
  const Text* text = call.self.text();
  if (text == nullptr) return fallback;
  call.budget().scan(text->bytes().size());
  if (const auto value = parse_integer(text->bytes(), base)) return *value;
  const auto value = parse_float(text->bytes());
  return value.has_value() ? truncated(*value, fallback) : Result(fallback);
}

Result float_filter(Call& call) {
  if (call.self.is_undefined()) return undefined_error(call.self);
  if (call.self.is_number()) return call.self.number();
  if (const auto* wide = call.self.get_if<Unsigned>()) return static_cast<double>(*wide);
  const Value fallback = call.has(0) ? call[0] : Value(0.0);
  const Text* text = call.self.text();
  if (text == nullptr) return fallback;
  call.budget().scan(text->bytes().size());
  const auto value = parse_float(text->bytes());
  return value.has_value() ? Value(*value) : fallback;
}

constexpr Builtin kFilters[] = {
    {"abs", "", absolute},
    {"float", "default?", float_filter},
    {"int", "default? base?", int_filter},
    {"round", "precision? method?", round_filter},
};

}  // namespace

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

std::span<const Builtin> number_filters() { return kFilters; }

}  // namespace lockstep::jinja

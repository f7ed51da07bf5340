// SPDX-License-Identifier: Apache-2.0
// Uses its own formulas on a generator's bits: the distributions of standard libraries differ.
#include "tools/load/lengths.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <optional>

#include "base/numbers/math.h"

namespace lockstep {
namespace {

template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

bool is_length(std::optional<int64_t> length) {
  return length.has_value() && *length >= 1 && *length <= Lengths::kMax;
}

// By Box and Muller's method.
double draw_normal(std::mt19937_64& random) {
  const double radius = std::sqrt(-2 * exact_log(draw_uniform(random)));
  return radius * exact_cos(2 * std::numbers::pi * draw_uniform(random));
}

}  // namespace

double draw_uniform(std::mt19937_64& random) {
  return (static_cast<double>(random() >> 12) + 0.5) * 0x1p-52;
}

absl::StatusOr<Lengths> Lengths::parse(std::string_view flag, std::string_view text) {
  constexpr std::string_view kLognormal = "lognormal:";
  const bool lognormal = text.starts_with(kLognormal);
  const std::string_view numbers = lognormal ? text.substr(kLognormal.size()) : text;
  const size_t colon = numbers.find(':');
  const auto first = parse_number<int64_t>(numbers.substr(0, colon));
  const std::string_view second = colon == numbers.npos ? "" : numbers.substr(colon + 1);
  if (lognormal) {
    const auto sigma = parse_number<double>(second);
    if (is_length(first) && sigma.has_value() && *sigma >= 0 && *sigma <= 5) {
      Lengths lengths(1);
      lengths.high_ = kMax;
      lengths.median_ = static_cast<double>(*first);
      lengths.sigma_ = *sigma;
      return lengths;
    }
  } else if (is_length(first)) {
    const auto last = colon == numbers.npos ? first : parse_number<int64_t>(second);
    Lengths lengths(*first);
    lengths.high_ = last.value_or(0);
    if (is_length(last) && *last >= *first) return lengths;
  }
  return invalid_argument(
      "{0}: must be 128, 64:512 (uniform) or lognormal:MEDIAN:SIGMA, with 1 to {2} tokens and a "
      "sigma of 0 to 5, found {1}",
      flag, printable(text), kMax);
}

int64_t Lengths::draw(std::mt19937_64& random) const {
  if (median_ > 0) {
    const double drawn = median_ * exact_exp(sigma_ * draw_normal(random));
    return std::clamp(std::llround(std::min(drawn, 1e9)), static_cast<long long>(low_),
                      static_cast<long long>(high_));
  }
  const auto count = static_cast<double>(high_ - low_ + 1);
  return low_ + static_cast<int64_t>(draw_uniform(random) * count);
}

}  // namespace lockstep

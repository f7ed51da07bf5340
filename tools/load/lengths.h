// SPDX-License-Identifier: Apache-2.0
// The lengths of a load's prompts and answers, in tokens.
#pragma once

#include <cstdint>
#include <random>
#include <string_view>

#include "base/status.h"

namespace lockstep {

// Uniform in (0, 1); equal on every machine.
double draw_uniform(std::mt19937_64& random);

// A distribution of lengths, which are 1 or more. Can be copied.
class Lengths {
 public:
  static constexpr int64_t kMax = 10'000'000;

  explicit Lengths(int64_t fixed) : low_(fixed), high_(fixed) {}
  // "128": fixed; "64:512": uniform, both ends included; "lognormal:MEDIAN:SIGMA": the logarithm is
  // normal with this deviation. `flag` names the text in errors.
  static absl::StatusOr<Lengths> parse(std::string_view flag, std::string_view text);

  int64_t draw(std::mt19937_64& random) const;

 private:
  int64_t low_;
  int64_t high_;
  double median_ = 0;  // For a lognormal, whose draws are limited to [low_, high_].
  double sigma_ = 0;
};

}  // namespace lockstep

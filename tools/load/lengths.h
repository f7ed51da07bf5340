// SPDX-License-Identifier: Apache-2.0
// How long a load's prompts and answers are, in tokens.
#pragma once

#include <cstdint>
#include <random>
#include <string_view>

#include "base/status.h"

namespace lockstep {

// Uniform in (0, 1); the same on every machine.
double draw_uniform(std::mt19937_64& random);

// A distribution of lengths, which are 1 or more. A value.
class Lengths {
 public:
  static constexpr int64_t kMax = 10'000'000;

  explicit Lengths(int64_t fixed) : low_(fixed), high_(fixed) {}
  // "128": each; "64:512": uniform, both included; "lognormal:MEDIAN:SIGMA": the logarithm is
  // normal with this deviation. `flag` names the text in errors.
  static absl::StatusOr<Lengths> parse(std::string_view flag, std::string_view text);

  int64_t draw(std::mt19937_64& random) const;

 private:
  int64_t low_;
  int64_t high_;
  double median_ = 0;  // Of a lognormal, whose draws are cut off at low_ and high_.
  double sigma_ = 0;
};

}  // namespace lockstep

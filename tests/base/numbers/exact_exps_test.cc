// SPDX-License-Identifier: Apache-2.0
#include "base/numbers/exact_exps.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/numbers/math.h"

namespace lockstep {
namespace {

void expect_alone(const std::vector<double>& numbers) {
  std::vector<double> together = numbers;
  exact_exps(together);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const double alone = exact_exp(numbers[i]);
    ASSERT_EQ(std::memcmp(&together[i], &alone, sizeof(alone)), 0)
        << numbers[i] << " gives " << together[i] << ", alone " << alone;
  }
}

TEST(ExactExpsTest, EachExpHasTheBitsThatItHasAlone) {
  std::mt19937_64 random(1);
  SCOPED_TRACE("seed 1");
  for (const double range : {1e-300, 1e-10, 1.0, 30.0, 800.0, 1e300}) {
    std::vector<double> numbers(40'003);
    std::uniform_real_distribution<double> draw(-range, range);
    for (double& number : numbers) number = draw(random);
    expect_alone(numbers);
  }
}

TEST(ExactExpsTest, SpecialNumbersHaveTheBitsThatTheyHaveAloneAtEveryPosition) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double half = 0.5 / 0x1.71547652b82fep+0;
  std::vector<double> special = {0.0,    -0.0,     -745.14,   -745.2, -745,    709.79,      709.8,
                                 709.78, -kInf,    kInf,      -708.4, -1e308,  1e308,       half,
                                 -half,  3 * half, -3 * half, 5e-324, -5e-324, std::nan("")};
  for (size_t length = 0; length <= special.size(); ++length) {
    expect_alone({special.begin(), special.begin() + static_cast<std::ptrdiff_t>(length)});
  }
  for (const double one : special) {
    for (size_t place = 0; place < 8; ++place) {
      std::vector<double> numbers(8, -1.25);
      numbers[place] = one;
      expect_alone(numbers);
    }
  }
}

}  // namespace
}  // namespace lockstep

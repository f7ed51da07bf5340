// SPDX-License-Identifier: Apache-2.0
#include "base/first_names.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep {
namespace {

TEST(FirstNamesTest, NamesBeyondTheFirstFewAreCounted) {
  const std::vector<std::string> names = {"a", "b\n", "c", "d"};
  EXPECT_EQ(first_names(names), "a, b?, c and 1 more");
  EXPECT_EQ(first_names(names, 2), "a, b? and 2 more");
  EXPECT_EQ(first_names(names, 4), "a, b?, c, d");
  EXPECT_EQ(first_names(names, 32), "a, b?, c, d");
  EXPECT_EQ(first_names({}), "");
}

}  // namespace
}  // namespace lockstep

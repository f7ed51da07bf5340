// SPDX-License-Identifier: Apache-2.0
#include "base/status.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(StatusTest, PrintableTextIsShortAndOnOneLine) {
  EXPECT_EQ(printable("a\nb\x01\xff"), "a?b??");
  EXPECT_EQ(printable(std::string(500, 'x')).size(), 120u);
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "coordinator/api/traceparent.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

const std::string kGood = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

std::string with(size_t at, char c) {
  std::string changed = kGood;
  changed[at] = c;
  return changed;
}

TEST(TraceparentTest, AStandardValueIsKeptUnchanged) {
  EXPECT_EQ(traceparent_of(kGood), kGood);
  EXPECT_EQ(traceparent_of(with(54, '0')), with(54, '0'));
}

TEST(TraceparentTest, ALaterVersionMayHaveMoreFields) {
  const std::string later = "cc" + kGood.substr(2);
  EXPECT_EQ(traceparent_of(later), later);
  EXPECT_EQ(traceparent_of(later + "-5a"), later + "-5a");
  EXPECT_EQ(traceparent_of(later + "5a"), "");
  EXPECT_EQ(traceparent_of(later + "-what the future will be like"), "");
  EXPECT_EQ(traceparent_of(later + "-" + std::string(300, 'a')), "");
  EXPECT_EQ(traceparent_of(kGood + "-5a"), "");
}

TEST(TraceparentTest, AnInvalidValueIsIgnored) {
  EXPECT_EQ(traceparent_of(""), "");
  EXPECT_EQ(traceparent_of("ff" + kGood.substr(2)), "");
  EXPECT_EQ(traceparent_of("00-" + std::string(32, '0') + kGood.substr(35)), "");
  EXPECT_EQ(traceparent_of(kGood.substr(0, 36) + std::string(16, '0') + "-01"), "");
  for (size_t length = 0; length < kGood.size(); ++length) {
    EXPECT_EQ(traceparent_of(kGood.substr(0, length)), "") << length;
  }
  for (size_t at = 0; at < kGood.size(); ++at) {
    for (const char c : {'g', 'A', ' ', '"', '\n', '\0'}) {
      EXPECT_EQ(traceparent_of(with(at, c)), "") << at;
    }
  }
}

}  // namespace
}  // namespace lockstep

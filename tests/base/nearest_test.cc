// SPDX-License-Identifier: Apache-2.0
#include "base/nearest.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep {
namespace {

using Names = std::vector<std::string_view>;

TEST(NearestTest, NamesAreOrderedByTheNumberOfLettersThatDiffer) {
  EXPECT_EQ(nearest("llama", {"mamba", "lama", "gpt2", "llama2"}, 2), (Names{"lama", "llama2"}));
  EXPECT_EQ(nearest("abc", {"xyz", "abd", "abc"}, 3), (Names{"abc", "abd", "xyz"}));
}

TEST(NearestTest, EachNameAppearsOnceEvenIfMoreAreRequested) {
  EXPECT_EQ(nearest("a", {"b", "b", "a"}, 5), (Names{"a", "b"}));
  EXPECT_EQ(nearest("a", {}, 3), Names());
  EXPECT_EQ(nearest("", {"aa", "a"}, 1), Names{"a"});
}

TEST(NearestTest, AVeryLongNameIsCut) {
  const std::string endless(10'000'000, 'a');
  EXPECT_EQ(nearest(endless, {"b", "aaa"}, 1), Names{"aaa"});
}

}  // namespace
}  // namespace lockstep

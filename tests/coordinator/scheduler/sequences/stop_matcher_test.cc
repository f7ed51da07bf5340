// SPDX-License-Identifier: Apache-2.0
// Compares stop strings in a text that is cut anywhere with a search in the whole text.
#include "coordinator/scheduler/sequences/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>

namespace lockstep {
namespace {

// The text before the stop, by definition: the occurrence that ends first counts; of several that
// end there, the longest.
std::string until_stop(const std::string& text, const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (!stop.empty() && end >= stop.size() &&
          text.compare(end - stop.size(), stop.size(), stop) == 0) {
        longest = std::max(longest, stop.size());
      }
    }
    if (longest > 0) return text.substr(0, end - longest);
  }
  return text;
}

TEST(StopMatcherTest, PiecesJoinToTheTextBeforeTheFirstStopAtAnyCut) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 20'000; ++trial) {
    std::vector<std::string> stops(random() % 4);
    for (std::string& stop : stops) {
      for (uint32_t i = random() % 5; i > 0; --i) stop.push_back("ab"[random() % 2]);
    }
    std::string text;
    for (uint32_t i = random() % 30; i > 0; --i) text.push_back("aabc"[random() % 4]);
    const std::string expected = until_stop(text, stops);
    const StopStrings strings(stops);
    StopMatcher matcher(&strings);
    std::string shown;
    for (size_t at = 0; at < text.size();) {
      const size_t piece = random() % 4;
      shown += matcher.push(text.substr(at, piece));
      at += piece;
      ASSERT_EQ(shown, expected.substr(0, shown.size())) << "shown too early in " << text;
    }
    EXPECT_EQ(matcher.stopped(), expected.size() < text.size());
    shown += matcher.finish();
    ASSERT_EQ(shown, expected) << text;
  }
}

TEST(StopMatcherTest, HoldsBackNoMoreThanTheBeginningOfAStop) {
  const StopStrings stops({"###", "\nUser:"});
  StopMatcher matcher(&stops);
  EXPECT_EQ(matcher.push("Hello"), "Hello");
  EXPECT_EQ(matcher.push(" #"), " ");
  EXPECT_EQ(matcher.push("1\nUs"), "#1");
  EXPECT_EQ(matcher.push("age"), "\nUsage");
  EXPECT_EQ(matcher.push("\nUser"), "");
  EXPECT_FALSE(matcher.stopped());
  EXPECT_EQ(matcher.push(": hi"), "");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.push("more"), "");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcherTest, TextThatOnlyBeganAStopIsShownAtTheEnd) {
  const StopStrings stops({"END"});
  StopMatcher matcher(&stops);
  EXPECT_EQ(matcher.push("the EN"), "the ");
  EXPECT_EQ(matcher.finish(), "EN");
  EXPECT_FALSE(matcher.stopped());
}

TEST(StopMatcherTest, StopsNeverSplitACharacterOfSeveralBytes) {
  const StopStrings stops({"€uro"});
  StopMatcher matcher(&stops);
  EXPECT_EQ(matcher.push("10 €"), "10 ");
  EXPECT_EQ(matcher.push("₭"), "€₭") << "it shares two of three bytes";
  EXPECT_EQ(matcher.push("€u"), "");
  EXPECT_EQ(matcher.push("ro!"), "");
  EXPECT_TRUE(matcher.stopped());
}

TEST(StopMatcherTest, TextPassesWithoutStopsAndEmptyStopsAreIgnored) {
  const StopStrings none_stops({});
  StopMatcher none(&none_stops);
  EXPECT_EQ(none.push("abc"), "abc");
  const StopStrings empty_stops({"", ""});
  StopMatcher empty(&empty_stops);
  EXPECT_EQ(empty.push("abc"), "abc");
  EXPECT_FALSE(empty.stopped());
}

TEST(StopMatcherTest, ARepetitiveTextAndALongStopTakeLinearTime) {
  std::string stop(1'000'001, 'a');
  stop.back() = 'b';
  const StopStrings stops({stop});
  StopMatcher matcher(&stops);
  std::string shown;
  for (int i = 0; i < 2'000; ++i) shown += matcher.push(std::string(1'000, 'a'));
  EXPECT_EQ(shown.size(), 1'000'000u);
  EXPECT_EQ(matcher.push("b"), "");
  EXPECT_TRUE(matcher.stopped());
}

}  // namespace
}  // namespace lockstep

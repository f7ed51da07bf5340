// SPDX-License-Identifier: Apache-2.0
// Pages are found by their tokens, used and evicted.
#include "coordinator/scheduler/pages/prefix_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace lockstep {
namespace {

using testing::ElementsAre;
constexpr int32_t kNone = PrefixTree::kNone;
using Tokens = std::vector<int32_t>;

std::vector<int32_t> evict(PrefixTree& tree, int64_t count) {
  std::vector<int32_t> pages;
  tree.evict(count, &pages);
  return pages;
}

TEST(PrefixTreeTest, APageIsFoundByAllOfItsTokensAndItsParent) {
  PrefixTree tree;
  tree.insert({}, kNone, {1, 2, 3}, 7);
  tree.insert({}, 7, {1, 2, 3}, 5);
  EXPECT_EQ(tree.find({}, kNone, Tokens{1, 2, 3}), 7);
  EXPECT_EQ(tree.find({}, 7, Tokens{1, 2, 3}), 5);
  EXPECT_EQ(tree.find({}, 5, Tokens{1, 2, 3}), kNone);
  for (size_t i = 0; i < 3; ++i) {
    Tokens other = {1, 2, 3};
    other[i] = 9;
    EXPECT_EQ(tree.find({}, kNone, other), kNone) << i;
  }
}

TEST(PrefixTreeTest, ClientsAndSaltsHaveTreesOfTheirOwn) {
  PrefixTree tree;
  tree.insert({"a", "x"}, kNone, {1}, 0);
  EXPECT_EQ(tree.find({"a", "x"}, kNone, Tokens{1}), 0);
  EXPECT_EQ(tree.find({"b", "x"}, kNone, Tokens{1}), kNone);
  EXPECT_EQ(tree.find({"a", "y"}, kNone, Tokens{1}), kNone);
  EXPECT_EQ(tree.find({"ax", ""}, kNone, Tokens{1}), kNone);
  EXPECT_EQ(tree.find({"", "ax"}, kNone, Tokens{1}), kNone);
}

TEST(PrefixTreeTest, TheLeastRecentlyUsedLeafGoesFirstAndThenItsParent) {
  PrefixTree tree;
  tree.insert({}, kNone, {1}, 0);
  tree.insert({}, 0, {2}, 1);
  tree.insert({}, 0, {3}, 2);
  tree.use(0);
  tree.use(1);
  EXPECT_EQ(tree.unused(), 1);
  tree.leave(1);
  tree.leave(0);
  EXPECT_EQ(tree.unused(), 3);
  EXPECT_THAT(evict(tree, 1), ElementsAre(2)) << "1 was used since";
  EXPECT_THAT(evict(tree, 2), ElementsAre(1, 0));
  EXPECT_EQ(tree.pages(), 0);
  tree.insert({}, kNone, {1}, 0);
  EXPECT_EQ(tree.find({}, 0, Tokens{2}), kNone) << "its first life left no trace";
}

TEST(PrefixTreeTest, AUsedPageStays) {
  PrefixTree tree;
  tree.insert({}, kNone, {1}, 0);
  tree.insert({}, kNone, {2}, 1);
  tree.use(0);
  tree.use(0);
  tree.leave(0);
  EXPECT_EQ(tree.unused(), 1);
  EXPECT_THAT(evict(tree, 1), ElementsAre(1));
  EXPECT_EQ(tree.find({}, kNone, Tokens{1}), 0);
}

TEST(PrefixTreeDeathTest, EvictingAUsedPageStopsTheProcess) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  PrefixTree tree;
  tree.insert({}, kNone, {1}, 0);
  tree.use(0);
  EXPECT_DEATH(evict(tree, 1), "check failed");
  EXPECT_DEATH(tree.insert({}, kNone, {1}, 1), "check failed");
  EXPECT_DEATH(tree.insert({}, kNone, {2}, 0), "check failed");
}

// Compares with a plain list of (path of tokens, page, users, time of the last use).
TEST(PrefixTreeTest, RandomOperationsAgreeWithAPlainList) {
  struct Entry {
    int32_t parent = kNone;
    Tokens tokens;
    int64_t users = 0;
    uint64_t left_at = 0;
  };
  std::mt19937 random(11);
  const auto below = [&](int n) {
    return static_cast<int32_t>(random() % static_cast<unsigned>(n));
  };
  PrefixTree tree;
  std::map<int32_t, Entry> list;
  std::vector<std::vector<int32_t>> paths;  // The pages that each user has, from the root down.
  uint64_t clock = 0;
  int64_t evicted = 0;
  for (int i = 0; i < 20'000; ++i) {
    const int32_t page = below(12);
    if (below(3) == 0 && !list.contains(page)) {
      const int32_t parent =
          list.empty() || below(4) == 0
              ? kNone
              : std::next(list.begin(), below(static_cast<int>(list.size())))->first;
      const Tokens tokens = {below(3)};
      const bool known = std::any_of(list.begin(), list.end(), [&](const auto& entry) {
        return entry.second.parent == parent && entry.second.tokens == tokens;
      });
      ASSERT_EQ(tree.find({}, parent, tokens) != kNone, known);
      if (known) continue;
      tree.insert({}, parent, tokens, page);
      list[page] = {.parent = parent, .tokens = tokens, .left_at = ++clock};
    } else if (below(2) == 0 && list.contains(page)) {
      std::vector<int32_t> path;
      for (int32_t at = page; at != kNone; at = list[at].parent) path.insert(path.begin(), at);
      for (const int32_t at : path) {
        tree.use(at);
        ++list[at].users;
      }
      paths.push_back(path);
    } else if (!paths.empty()) {
      std::swap(paths[static_cast<size_t>(below(static_cast<int>(paths.size())))], paths.back());
      for (; !paths.back().empty(); paths.back().pop_back()) {
        tree.leave(paths.back().back());
        Entry& entry = list[paths.back().back()];
        if (--entry.users == 0) entry.left_at = ++clock;
      }
      paths.pop_back();
    } else if (tree.unused() > 0) {
      int32_t oldest = kNone;
      for (const auto& [candidate, entry] : list) {
        const bool parent =
            std::any_of(list.begin(), list.end(),
                        [&, at = candidate](const auto& e) { return e.second.parent == at; });
        if (entry.users > 0 || parent) continue;
        if (oldest == kNone || entry.left_at < list[oldest].left_at) oldest = candidate;
      }
      ASSERT_THAT(evict(tree, 1), ElementsAre(oldest));
      list.erase(oldest);
      ++evicted;
    }
    int64_t unused = 0;
    for (const auto& [candidate, entry] : list) unused += entry.users == 0 ? 1 : 0;
    ASSERT_EQ(tree.unused(), unused);
    ASSERT_EQ(tree.pages(), static_cast<int64_t>(list.size()));
  }
  EXPECT_GT(evicted, 100);
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// Which full KV pages hold which tokens, so that a later sequence that begins with the same tokens
// need not compute them again (as SGLang's radix tree; Zheng et al., 2024). A node is a page; its
// tokens are compared one by one, so that no hash can collide.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lockstep {

// Whose tree: sequences share pages within one only.
struct TreeKey {
  std::string client;
  std::string salt;
  int frequencies = 0;  // By which keys are turned, as of RopeRule.
  bool operator<(const TreeKey& other) const {
    return std::tie(client, salt, frequencies) <
           std::tie(other.client, other.salt, other.frequencies);
  }
};

// Used by the engine's thread alone. A page in it has users (sequences that run on it) or none; a
// page with a user has a parent with one, unless it has no parent. So every page without a user can
// be evicted, leaves first.
class PrefixTree {
 public:
  static constexpr int32_t kNone = -1;

  // The page with these tokens behind `parent` (kNone: at the beginning), or kNone.
  int32_t find(const TreeKey& key, int32_t parent, std::span<const int32_t> tokens) const;
  // There is none yet. It has no user, as `parent` may have none.
  void insert(const TreeKey& key, int32_t parent, std::vector<int32_t> tokens, int32_t page);
  // Another user, and one less. A sequence uses its pages in order, and lets go of all at once.
  void use(int32_t page);
  void leave(int32_t page);
  int64_t users(int32_t page) const { return node(page).users; }

  int64_t pages() const { return static_cast<int64_t>(nodes_.size()); }
  int64_t unused() const { return unused_; }  // Of these, without a user.
  // Takes `count` of those out, the least recently used ones first, and appends them to `pages`.
  void evict(int64_t count, std::vector<int32_t>* pages);

 private:
  struct TokensLess {
    using is_transparent = void;
    bool operator()(std::span<const int32_t> a, std::span<const int32_t> b) const;
  };
  using Children = std::map<std::vector<int32_t>, int32_t, TokensLess>;
  using Trees = std::map<TreeKey, Children>;
  struct Node {
    int32_t parent = kNone;
    Trees::iterator tree = {};
    Children::iterator self = {};  // Among its parent's children, or its tree's.
    Children children = {};
    int64_t users = 0;
    uint64_t left_at = 0;  // When its last user left.
  };

  // It is in the tree.
  const Node& node(int32_t page) const;
  Node& node(int32_t page) { return const_cast<Node&>(std::as_const(*this).node(page)); }
  bool evictable(const Node& node) const { return node.users == 0 && node.children.empty(); }
  void remove(int32_t page);

  std::unordered_map<int32_t, Node> nodes_;        // By page.
  Trees trees_;                                    // None is empty.
  std::set<std::pair<uint64_t, int32_t>> leaves_;  // Evictable: (left_at, page).
  uint64_t clock_ = 0;
  int64_t unused_ = 0;
};

}  // namespace lockstep

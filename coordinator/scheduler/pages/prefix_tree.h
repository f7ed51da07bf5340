// SPDX-License-Identifier: Apache-2.0
// Maps tokens to full KV pages, so that a later sequence with the same beginning need not compute
// these pages again (like SGLang's radix tree; Zheng et al., 2024). A node is a page. Tokens are
// compared one by one, so hashes cannot collide.
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

// Names a tree: sequences share pages only within one tree.
struct TreeKey {
  std::string client;
  std::string salt;
  int frequencies = 0;  // RopeRule's number for the rotary frequencies of the keys.
  bool operator<(const TreeKey& other) const {
    return std::tie(client, salt, frequencies) <
           std::tie(other.client, other.salt, other.frequencies);
  }
};

// Used by the engine's thread alone. A page's users are the running sequences that have it. The
// parent of a page with users has users, too. So every page without users can be evicted, leaves
// first.
class PrefixTree {
 public:
  static constexpr int32_t kNone = -1;

  // The page with these tokens after `parent` (kNone: at the beginning), or kNone.
  int32_t find(const TreeKey& key, int32_t parent, std::span<const int32_t> tokens) const;
  // Adds a page, which must not be in the tree yet. It has no user yet; `parent` may have none,
  // too.
  void insert(const TreeKey& key, int32_t parent, std::vector<int32_t> tokens, int32_t page);
  // Add and remove a user. A sequence uses its pages in order, and leaves all of them at once.
  void use(int32_t page);
  void leave(int32_t page);
  int64_t users(int32_t page) const { return node(page).users; }

  int64_t pages() const { return static_cast<int64_t>(nodes_.size()); }
  int64_t unused() const { return unused_; }  // Included in pages(): those without users.
  // Evicts `count` unused pages, the least recently used first, and appends them to `pages`.
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
    Children::iterator self = {};  // Its place among the children of its parent, or of its tree.
    Children children = {};
    int64_t users = 0;
    uint64_t left_at = 0;  // The time at which it was added, or its last user left.
  };

  // `page` must be in the tree.
  const Node& node(int32_t page) const;
  Node& node(int32_t page) { return const_cast<Node&>(std::as_const(*this).node(page)); }
  bool evictable(const Node& node) const { return node.users == 0 && node.children.empty(); }
  void remove(int32_t page);

  std::unordered_map<int32_t, Node> nodes_;        // By page.
  Trees trees_;                                    // No tree is empty.
  std::set<std::pair<uint64_t, int32_t>> leaves_;  // Evictable: (left_at, page).
  uint64_t clock_ = 0;
  int64_t unused_ = 0;
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// Every page is found through its parent's children, which are ordered by their tokens.
#include "coordinator/scheduler/pages/prefix_tree.h"

#include <algorithm>

#include "base/check.h"

namespace lockstep {

bool PrefixTree::TokensLess::operator()(std::span<const int32_t> a,
                                        std::span<const int32_t> b) const {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

const PrefixTree::Node& PrefixTree::node(int32_t page) const {
  const auto found = nodes_.find(page);
  LOCKSTEP_CHECK(found != nodes_.end());
  return found->second;
}

int32_t PrefixTree::find(const TreeKey& key, int32_t parent,
                         std::span<const int32_t> tokens) const {
  const Children* children = nullptr;
  if (parent != kNone) {
    children = &node(parent).children;
  } else if (const auto tree = trees_.find(key); tree != trees_.end()) {
    children = &tree->second;
  }
  if (children == nullptr) return kNone;
  const auto found = children->find(tokens);
  return found == children->end() ? kNone : found->second;
}

void PrefixTree::insert(const TreeKey& key, int32_t parent, std::vector<int32_t> tokens,
                        int32_t page) {
  const auto [entry, is_new_page] = nodes_.try_emplace(page);
  LOCKSTEP_CHECK(is_new_page);
  Node& added = entry->second;
  added.parent = parent;
  added.left_at = ++clock_;
  Children* siblings = nullptr;
  if (parent == kNone) {
    added.tree = trees_.try_emplace(key).first;
    siblings = &added.tree->second;
  } else {
    if (evictable(node(parent))) leaves_.erase({node(parent).left_at, parent});
    siblings = &node(parent).children;
  }
  bool is_new = false;
  std::tie(added.self, is_new) = siblings->emplace(std::move(tokens), page);
  LOCKSTEP_CHECK(is_new);
  leaves_.emplace(added.left_at, page);
  ++unused_;
}

void PrefixTree::use(int32_t page) {
  Node& used = node(page);
  if (evictable(used)) leaves_.erase({used.left_at, page});
  if (used.users++ == 0) --unused_;
}

void PrefixTree::leave(int32_t page) {
  Node& left = node(page);
  LOCKSTEP_CHECK(left.users > 0);
  if (--left.users > 0) return;
  ++unused_;
  left.left_at = ++clock_;
  if (evictable(left)) leaves_.emplace(left.left_at, page);
}

void PrefixTree::evict(int64_t count, std::vector<int32_t>* pages) {
  LOCKSTEP_CHECK(count <= unused_);
  for (; count > 0; --count) {
    LOCKSTEP_CHECK(!leaves_.empty());
    const int32_t page = leaves_.begin()->second;
    remove(page);
    pages->push_back(page);
  }
}

void PrefixTree::remove(int32_t page) {
  Node& removed = node(page);
  leaves_.erase({removed.left_at, page});
  if (removed.parent == kNone) {
    removed.tree->second.erase(removed.self);
    if (removed.tree->second.empty()) trees_.erase(removed.tree);
  } else {
    Node& parent = node(removed.parent);
    parent.children.erase(removed.self);
    if (evictable(parent)) leaves_.emplace(parent.left_at, removed.parent);
  }
  nodes_.erase(page);
  --unused_;
}

}  // namespace lockstep

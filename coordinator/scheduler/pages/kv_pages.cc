// SPDX-License-Identifier: Apache-2.0
// A running sequence has pages of the prefix tree first, then pages that only it uses.
#include "coordinator/scheduler/pages/kv_pages.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/fault_point.h"

namespace lockstep {

TreeKey KvPages::key_of(const Sequence& sequence) const {
  const EngineRequest& request = sequence.request();
  const bool runs = sequence.state() == Sequence::State::kRunning;
  const int64_t length = runs ? sequence.rope_length() : rope_length(sequence);
  return {.client = options_.shared ? "" : request.client,
          .salt = request.cache_salt,
          .frequencies = rope_.frequencies(length)};
}

int64_t KvPages::rope_length(const Sequence& sequence) const {
  return rope_.rope_length(sequence.prompt_tokens(), sequence.length());
}

bool KvPages::rotates_as_before(const Sequence& sequence) const {
  return rope_.frequencies(rope_length(sequence)) == rope_.frequencies(sequence.rope_length());
}

std::vector<int32_t> KvPages::tokens_of(const Sequence& sequence, int64_t page) const {
  std::vector<int32_t> tokens(static_cast<size_t>(page_tokens()));
  for (int64_t i = 0; i < page_tokens(); ++i) {
    tokens[static_cast<size_t>(i)] = sequence.token(page * page_tokens() + i);
  }
  return tokens;
}

std::vector<int32_t> KvPages::find(const Sequence& sequence) const {
  const TreeKey key = key_of(sequence);
  std::vector<int32_t> found;
  int32_t parent = PrefixTree::kNone;
  for (int64_t page = 0; page < usable_pages(sequence); ++page) {
    parent = tree_.find(key, parent, tokens_of(sequence, page));
    if (parent == PrefixTree::kNone) break;
    found.push_back(parent);
  }
  return found;
}

bool KvPages::has_tree(const Sequence& sequence) const {
  return options_.enabled && sequence.request().prompt_embeds.empty() &&
         sequence.prepared().prefix().rows == 0;
}

bool KvPages::can_share(const Sequence& sequence) const {
  return has_tree(sequence) && sequence.prompt_tokens() > page_tokens();
}

int64_t KvPages::shared_if_started(const Sequence& sequence) const {
  const TreeKey key = key_of(sequence);
  int32_t parent = PrefixTree::kNone;
  int64_t pages = 0;
  for (; pages < usable_pages(sequence); ++pages) {
    parent = tree_.find(key, parent, tokens_of(sequence, pages));
    if (parent == PrefixTree::kNone || tree_.users(parent) == 0) break;
  }
  return pages;
}

void KvPages::start(Sequence& sequence, int32_t slot) {
  std::vector<int32_t> cached = find(sequence);
  for (const int32_t page : cached) tree_.use(page);
  const int64_t tokens = static_cast<int64_t>(cached.size()) * page_tokens();
  if (has_tree(sequence) && sequence.state() == Sequence::State::kWaiting) {
    counts_.queries += sequence.length();
    counts_.hits += tokens;
  }
  sequence.start(slot, rope_length(sequence), std::move(cached), tokens);
}

void KvPages::take(int64_t count, Sequence& sequence) {
  const bool all = tree_.unused() > 0 && fault_point("kv_pages.evict_all");
  if (all || count > allocator_.free()) {
    std::vector<int32_t> evicted;
    tree_.evict(all ? tree_.unused() : count - allocator_.free(), &evicted);
    allocator_.give_back(evicted);
  }
  allocator_.take(count, &sequence.pages());
}

void KvPages::publish(Sequence& sequence) {
  if (!has_tree(sequence)) return;
  const int64_t full = sequence.computed() / page_tokens();
  if (full > sequence.pages_in_tree() && fault_point("kv_pages.publish_later")) return;
  while (sequence.pages_in_tree() < full) {
    const int64_t page = sequence.pages_in_tree();
    const int32_t parent = page == 0 ? PrefixTree::kNone : sequence.page(page - 1);
    const TreeKey key = key_of(sequence);
    std::vector<int32_t> tokens = tokens_of(sequence, page);
    // Another sequence has computed the same page. This sequence keeps its own copy, and all pages
    // after it, out of the tree until leave().
    if (tree_.find(key, parent, tokens) != PrefixTree::kNone) return;
    tree_.insert(key, parent, std::move(tokens), sequence.page(page));
    tree_.use(sequence.page(page));
    sequence.note_in_tree(page + 1);
  }
}

void KvPages::leave(Sequence& sequence) {
  const int64_t shared = sequence.pages_in_tree();
  const int64_t full = has_tree(sequence) ? sequence.computed() / page_tokens() : 0;
  int32_t parent = shared == 0 ? PrefixTree::kNone : sequence.page(shared - 1);
  const TreeKey key = key_of(sequence);
  std::vector<int32_t> unwanted;
  for (int64_t page = shared; page < full; ++page) {
    std::vector<int32_t> tokens = tokens_of(sequence, page);
    const int32_t found = tree_.find(key, parent, tokens);
    if (found == PrefixTree::kNone) {
      tree_.insert(key, parent, std::move(tokens), sequence.page(page));
      parent = sequence.page(page);
    } else {
      unwanted.push_back(sequence.page(page));
      parent = found;
    }
  }
  const std::vector<int32_t> pages = sequence.drop_pages();
  for (int64_t page = shared; page > 0; --page) tree_.leave(pages[static_cast<size_t>(page - 1)]);
  allocator_.give_back(unwanted);
  allocator_.give_back(std::span(pages).subspan(static_cast<size_t>(std::max(shared, full))));
}

}  // namespace lockstep

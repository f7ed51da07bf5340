// SPDX-License-Identifier: Apache-2.0
// All KV pages of a group: free ones, those of running sequences, and those that hold the tokens of
// earlier ones, which a sequence with the same beginning takes instead of computing it.
//
// A full page never changes again: from then on it may be in the prefix tree, and any number of
// sequences may read it. A sequence writes only behind the pages that it took from the tree. Of two
// sequences that compute the same page at the same time, the first one's goes into the tree; the
// other one keeps its own until it ends.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "coordinator/scheduler/pages/pages.h"
#include "coordinator/scheduler/pages/prefix_options.h"
#include "coordinator/scheduler/pages/prefix_tree.h"
#include "coordinator/scheduler/sequences/sequence.h"

namespace lockstep {

// Used by the engine's thread alone.
class KvPages {
 public:
  KvPages(int64_t pages, int64_t page_tokens, RopeRule rope, PrefixOptions options)
      : rope_(std::move(rope)), options_(options), allocator_(pages, page_tokens) {}

  int64_t total() const { return allocator_.total(); }
  int64_t page_tokens() const { return allocator_.page_tokens(); }
  int64_t pages_for(int64_t positions) const { return allocator_.pages_for(positions); }
  // That a sequence can take: cached ones that no running sequence uses are evicted for it.
  int64_t available() const { return allocator_.free() + tree_.unused(); }
  int64_t cached() const { return tree_.unused(); }  // Of these, with tokens of earlier sequences.
  const PrefixCounts& counts() const { return counts_; }

  // Whether another sequence with the same prompt could use a page of this one's.
  bool can_share(const Sequence& sequence) const;
  // Pages that `sequence` would share with running sequences if it started now.
  int64_t shared_if_started(const Sequence& sequence) const;
  // Whether its pages, it being a running one, are for rotary frequencies that it still has.
  bool turns_as_before(const Sequence& sequence) const;
  // Starts it on the longest cached beginning; rows whose logits are wanted are always computed.
  void start(Sequence& sequence, int32_t slot);
  // Appends `count` pages to those of `sequence`; there are that many available.
  void take(int64_t count, Sequence& sequence);
  // After it computed rows: its new full pages may be shared from now on.
  void publish(Sequence& sequence);
  // It ends, or is preempted: all its pages are available, the full ones as cached ones.
  void leave(Sequence& sequence);

 private:
  // Pages are found by the tokens in them: rows of embeddings have none, and those of a prefix
  // depend on tokens behind them.
  bool has_tree(const Sequence& sequence) const;
  TreeKey key_of(const Sequence& sequence) const;
  // If it started now.
  int64_t rope_length(const Sequence& sequence) const;
  // What is computed for its logits is not taken from the cache.
  int64_t usable_pages(const Sequence& sequence) const {
    return has_tree(sequence) ? sequence.first_wanted_row() / page_tokens() : 0;
  }
  std::vector<int32_t> tokens_of(const Sequence& sequence, int64_t page) const;
  std::vector<int32_t> find(const Sequence& sequence) const;

  const RopeRule rope_;
  const PrefixOptions options_;
  PageAllocator allocator_;  // For which pages in the tree are used ones.
  PrefixTree tree_;
  PrefixCounts counts_;
};

}  // namespace lockstep

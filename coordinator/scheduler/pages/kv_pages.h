// SPDX-License-Identifier: Apache-2.0
// All KV pages of a group: free ones, those of running sequences, and cached ones with the tokens
// of earlier sequences. A sequence with the same beginning uses the cached pages instead of
// computing them again.
//
// A full page never changes again, so it may be in the prefix tree, and any number of sequences may
// read it. A sequence never writes to pages that it took from the tree, only to later ones. If two
// sequences compute the same page at the same time, the page of the first one goes into the tree;
// the other sequence keeps its own copy until it ends.
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
  // Free pages, and cached pages that no running sequence uses: take() evicts these when needed.
  int64_t available() const { return allocator_.free() + tree_.unused(); }
  int64_t cached() const { return tree_.unused(); }  // Included in available().
  const PrefixCounts& counts() const { return counts_; }

  // Whether another sequence with the same prompt could use a page of this sequence.
  bool can_share(const Sequence& sequence) const;
  // Pages that `sequence` would share with running sequences if it started now.
  int64_t shared_if_started(const Sequence& sequence) const;
  // Whether the pages of a running sequence have the rotary frequencies that it now needs.
  bool rotates_as_before(const Sequence& sequence) const;
  // Starts a sequence with the pages of its longest cached beginning. Rows whose logits are needed
  // are always computed.
  void start(Sequence& sequence, int32_t slot);
  // Appends `count` pages to those of the sequence; they must be available.
  void take(int64_t count, Sequence& sequence);
  // Call after a sequence computed rows: its new full pages may be shared from now on.
  void publish(Sequence& sequence);
  // A sequence ends or is preempted: all its pages become available; full ones stay cached.
  void leave(Sequence& sequence);

 private:
  // Whether the tree may hold pages of this sequence. False if rows are given as embeddings: pages
  // are found by their tokens. Also false if the first rows see one another
  // (PreparedRequest::prefix()): these rows depend on later tokens.
  bool has_tree(const Sequence& sequence) const;
  TreeKey key_of(const Sequence& sequence) const;
  // The rope_length that the sequence would get if it started now.
  int64_t rope_length(const Sequence& sequence) const;
  // The max number of cached pages for the sequence: rows whose logits are needed must be computed.
  int64_t usable_pages(const Sequence& sequence) const {
    return has_tree(sequence) ? sequence.first_wanted_row() / page_tokens() : 0;
  }
  std::vector<int32_t> tokens_of(const Sequence& sequence, int64_t page) const;
  std::vector<int32_t> find(const Sequence& sequence) const;

  const RopeRule rope_;
  const PrefixOptions options_;
  PageAllocator allocator_;  // Pages in the tree count as used here.
  PrefixTree tree_;
  PrefixCounts counts_;
};

}  // namespace lockstep

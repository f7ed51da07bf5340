// SPDX-License-Identifier: Apache-2.0
// Allocates KV pages. An id means the same page on every rank; only the coordinator allocates.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep {

// Used by the engine's thread alone. Allocating a used page or freeing a free one is our own bug
// and stops the process: it would mean wrong tokens.
class PageAllocator {
 public:
  PageAllocator(int64_t pages, int64_t page_tokens);

  int64_t total() const { return static_cast<int64_t>(used_.size()); }
  int64_t free() const { return static_cast<int64_t>(free_.size()); }
  int64_t page_tokens() const { return page_tokens_; }
  // The number of pages that hold `positions` positions.
  int64_t pages_for(int64_t positions) const {
    return (positions + page_tokens_ - 1) / page_tokens_;
  }

  // Appends `count` pages to `pages`; that many must be free.
  void take(int64_t count, std::vector<int32_t>* pages);
  void give_back(std::span<const int32_t> pages);

 private:
  int64_t page_tokens_;
  std::vector<int32_t> free_;  // The last one is allocated first.
  std::vector<bool> used_;     // By page.
};

}  // namespace lockstep

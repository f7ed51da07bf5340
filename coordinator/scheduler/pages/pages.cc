// SPDX-License-Identifier: Apache-2.0
// A stack of free ids and, to detect our own bugs, a bit for each page in use.
#include "coordinator/scheduler/pages/pages.h"

#include <limits>

#include "base/check.h"

namespace lockstep {

PageAllocator::PageAllocator(int64_t pages, int64_t page_tokens)
    : page_tokens_(page_tokens), used_(static_cast<size_t>(pages)) {
  LOCKSTEP_CHECK(pages <= std::numeric_limits<int32_t>::max());
  LOCKSTEP_CHECK(page_tokens > 0);
  free_.reserve(used_.size());
  for (int64_t page = pages - 1; page >= 0; --page) free_.push_back(static_cast<int32_t>(page));
}

void PageAllocator::take(int64_t count, std::vector<int32_t>* pages) {
  LOCKSTEP_CHECK(count <= free());
  for (int64_t i = 0; i < count; ++i) {
    const int32_t page = free_.back();
    free_.pop_back();
    LOCKSTEP_CHECK(!used_[static_cast<size_t>(page)]);
    used_[static_cast<size_t>(page)] = true;
    pages->push_back(page);
  }
}

void PageAllocator::give_back(std::span<const int32_t> pages) {
  for (const int32_t page : pages) {
    LOCKSTEP_CHECK(0 <= page && page < total());
    LOCKSTEP_CHECK(used_[static_cast<size_t>(page)]);
    used_[static_cast<size_t>(page)] = false;
    free_.push_back(page);
  }
}

}  // namespace lockstep

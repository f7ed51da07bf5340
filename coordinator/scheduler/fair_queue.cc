// SPDX-License-Identifier: Apache-2.0
// One ring of clients for each priority; a share without work leaves it when the next step begins.
#include "coordinator/scheduler/fair_queue.h"

#include <algorithm>

#include "base/check.h"

namespace lockstep {

FairQueue::Share& FairQueue::share_of(const Sequence& sequence) {
  Ring& ring = rings_[sequence.request().priority];
  const auto [found, is_new] = ring.by_client.try_emplace(sequence.request().client);
  if (is_new) found->second = ring.shares.insert(ring.shares.end(), Share{.client = found->first});
  return *found->second;
}

void FairQueue::add(Sequence* sequence) {
  Share& share = share_of(*sequence);
  std::erase(share.prompts, sequence);
  LOCKSTEP_CHECK(share.waiting.insert(sequence).second);
  ++size_;
}

void FairQueue::remove(Sequence* sequence) {
  LOCKSTEP_CHECK(share_of(*sequence).waiting.erase(sequence) == 1);
  --size_;
}

void FairQueue::begin(std::span<Sequence* const> prompts) {
  for (auto& [priority, ring] : rings_) {
    for (Share& share : ring.shares) {
      share.prompts.clear();
      share.blocked = false;
    }
  }
  for (auto prompt = prompts.rbegin(); prompt != prompts.rend(); ++prompt) {
    share_of(**prompt).prompts.push_back(*prompt);
  }
  for (auto& entry : rings_) {
    Ring& ring = entry.second;
    ring.shares.remove_if(
        [&](const Share& share) { return share.idle() && ring.by_client.erase(share.client) > 0; });
  }
  std::erase_if(rings_, [](const auto& ring) { return ring.second.shares.empty(); });
}

Sequence* FairQueue::next() {
  for (auto& [priority, ring] : rings_) {
    if (Sequence* sequence = next_in(ring); sequence != nullptr) return sequence;
  }
  return nullptr;
}

// Who has nothing to compute now, or is blocked, is passed over and keeps its place.
Sequence* FairQueue::next_in(Ring& ring) {
  for (auto share = ring.shares.begin(); share != ring.shares.end(); ++share) {
    const bool starts = share->prompts.empty();
    if (starts && (share->blocked || share->waiting.empty())) continue;
    if (share->rows_left == 0) share->rows_left = kTurnRows;
    ring_ = &ring;
    current_ = share;
    return starts ? *share->waiting.begin() : share->prompts.back();
  }
  return nullptr;
}

void FairQueue::start() {
  LOCKSTEP_CHECK(current_->prompts.empty());
  current_->prompts.push_back(*current_->waiting.begin());
  current_->waiting.erase(current_->waiting.begin());
  --size_;
}

void FairQueue::take(int64_t rows, bool all) {
  LOCKSTEP_CHECK(0 <= rows && rows <= current_->rows_left);
  if (all) current_->prompts.pop_back();
  current_->rows_left = current_->idle() ? 0 : current_->rows_left - rows;
  if (current_->rows_left > 0) return;
  ring_->shares.splice(ring_->shares.end(), ring_->shares, current_);
}

}  // namespace lockstep

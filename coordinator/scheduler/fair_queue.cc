// SPDX-License-Identifier: Apache-2.0
// One ring of clients per priority. A client's Share is deleted when it has no sequences.
#include "coordinator/scheduler/fair_queue.h"

#include <algorithm>

#include "base/check.h"

namespace lockstep {

FairQueue::Share& FairQueue::share_of(const Sequence& sequence) {
  const EngineRequest& request = sequence.request();
  const auto [found, is_new] = rings_[request.priority].shares.try_emplace(request.client);
  Share& share = found->second;
  if (is_new) {
    share.priority = request.priority;
    share.client = request.client;
    share.round = ++rounds_;
  }
  return share;
}

void FairQueue::settle(Share& share) {
  const auto ring = rings_.find(share.priority);
  ByRound* set = nullptr;
  if (!share.prompts.empty()) {
    set = &ring->second.computing;
  } else if (!share.waiting.empty() && !share.blocked) {
    const Sequence& oldest = **share.waiting.begin();
    set = oldest.has_begun() ? &ring->second.begun : &ring->second.fresh;
  }
  if (set != share.set) {
    if (share.set != nullptr) share.set->erase(&share);
    if (set != nullptr) set->insert(&share);
    share.set = set;
  }
  if (set != nullptr || share.blocked) return;
  ring->second.shares.erase(share.client);
  if (ring->second.shares.empty()) rings_.erase(ring);
}

void FairQueue::add(Sequence* sequence) {
  Share& share = share_of(*sequence);
  std::erase(share.prompts, sequence);
  LOCKSTEP_CHECK(share.waiting.insert(sequence).second);
  ++size_;
  settle(share);
}

void FairQueue::remove(Sequence* sequence) {
  Share& share = share_of(*sequence);
  LOCKSTEP_CHECK(share.waiting.erase(sequence) == 1);
  --size_;
  settle(share);
}

int64_t FairQueue::clients() const {
  int64_t clients = 0;
  for (const auto& [priority, ring] : rings_) clients += static_cast<int64_t>(ring.shares.size());
  return clients;
}

void FairQueue::begin(std::span<Sequence* const> prompts) {
  std::vector<Share*> changed;
  changed.swap(blocked_);
  for (Share* share : changed) share->blocked = false;
  for (auto& [priority, ring] : rings_) {
    changed.insert(changed.end(), ring.computing.begin(), ring.computing.end());
  }
  for (Share* share : changed) share->prompts.clear();
  for (auto prompt = prompts.rbegin(); prompt != prompts.rend(); ++prompt) {
    Share& share = share_of(**prompt);
    share.prompts.push_back(*prompt);
    settle(share);
  }
  for (Share* share : changed) settle(*share);
  starters_ = Starters::kAll;
}

Sequence* FairQueue::next() {
  for (auto& [priority, ring] : rings_) {
    const bool may_start = blocked_.empty() || priority <= blocked_priority_;
    current_ = next_in(ring, may_start);
    if (current_ == nullptr) continue;
    if (current_->rows_left == 0) current_->rows_left = kQuantumRows;
    return current_->prompts.empty() ? *current_->waiting.begin() : current_->prompts.back();
  }
  return nullptr;
}

FairQueue::Share* FairQueue::next_in(Ring& ring, bool may_start) const {
  Share* computing = ring.computing.empty() ? nullptr : *ring.computing.begin();
  const ByRound& starters =
      ring.begun.empty() && starters_ == Starters::kAll ? ring.fresh : ring.begun;
  if (!may_start || starters_ == Starters::kNone || starters.empty()) return computing;
  Share* starting = *starters.begin();
  return computing == nullptr || EarlierRound()(starting, computing) ? starting : computing;
}

void FairQueue::start() {
  LOCKSTEP_CHECK(current_->prompts.empty());
  current_->prompts.push_back(*current_->waiting.begin());
  current_->waiting.erase(current_->waiting.begin());
  --size_;
  settle(*current_);
}

void FairQueue::take(int64_t rows, bool all) {
  LOCKSTEP_CHECK(0 <= rows);
  if (all) current_->prompts.pop_back();
  current_->rows_left = std::max<int64_t>(current_->rows_left - rows, 0);
  if (current_->rows_left == 0) {
    current_->set->erase(current_);
    current_->set = nullptr;
    current_->round = ++rounds_;
  }
  settle(*current_);
}

void FairQueue::block(Starters others) {
  current_->blocked = true;
  blocked_.push_back(current_);
  blocked_priority_ = current_->priority;
  starters_ = others;
  settle(*current_);
}

}  // namespace lockstep

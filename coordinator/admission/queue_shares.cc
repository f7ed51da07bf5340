// SPDX-License-Identifier: Apache-2.0
// Shares are a tree of three levels: the whole queue, networks, clients. A share keeps its members
// sorted by each measure.
#include "coordinator/admission/queue_shares.h"

#include <algorithm>

#include "base/check.h"
#include "base/sockets/address.h"
#include "base/status.h"

namespace lockstep {

// One measure of waiting requests.
struct QueueShares::Bound {
  size_t index;  // In Share::ranks.
  const char* what;
  int64_t QueueLoad::*measure;
  // If true, a request larger than the bound is accepted while the queue is empty.
  bool allows_one_larger = true;

  // How far `waiting` and `more` together exceed the bound.
  int64_t excess(const QueueLoad& waiting, const QueueLoad& more, const QueueLoad& max) const {
    if (allows_one_larger && waiting.requests == 0) return 0;
    return std::max<int64_t>(waiting.*measure + more.*measure - max.*measure, 0);
  }
};

const std::array<QueueShares::Bound, QueueShares::kMeasures> QueueShares::kBounds = {{
    {0, "requests", &QueueLoad::requests, /*allows_one_larger=*/false},
    {1, "choices", &QueueLoad::choices},
    {2, "prompt tokens", &QueueLoad::prompt_tokens},
    {3, "bytes", &QueueLoad::bytes},
}};

QueueShares::Names QueueShares::names_of(const std::string& client) {
  return {network_of(client), client};
}

QueueShares::Share* QueueShares::member(const Share& share, const std::string& name) {
  const auto found = share.members.find(name);
  return found == share.members.end() ? nullptr : found->second.get();
}

bool QueueShares::can_give(const Bound& bound, const Names& names, int64_t more,
                           int64_t room) const {
  int64_t given = 0;
  const Share* share = &root_;
  for (const std::string& name : names) {
    const Share* own = member(*share, name);
    const int64_t wanted = (own == nullptr ? 0 : own->load.*bound.measure) + more;
    const std::set<Rank>& ranks = share->ranks[bound.index];
    for (auto at = ranks.rbegin(); at != ranks.rend() && given < room; ++at) {
      const int64_t has = std::get<0>(*at);
      if (has <= wanted) break;
      given += has - wanted;
    }
    if (own == nullptr) break;
    share = own;
  }
  return given >= room;
}

absl::Status QueueShares::check_bounds(const Names& names, const QueueLoad& load) {
  for (const Bound& bound : kBounds) {
    const int64_t excess = bound.excess(all(), load, max_);
    if (excess == 0 || can_give(bound, names, load.*bound.measure, excess)) continue;
    ++(refused_.*bound.measure);
    return resource_exhausted(
        "the queue is full: {} {} wait, this request adds {}, the max is {}; try again later",
        all().*bound.measure, bound.what, load.*bound.measure, max_.*bound.measure);
  }
  return absl::OkStatus();
}

absl::Status QueueShares::check(const std::string& client) {
  return check_bounds(names_of(client), {.requests = 1});
}

absl::StatusOr<std::vector<std::shared_ptr<Stream>>> QueueShares::join(
    const EngineRequest& request, const QueueLoad& load, const std::shared_ptr<Stream>& stream) {
  const Names names = names_of(request.client);
  RETURN_IF_ERROR(check_bounds(names, load));
  std::vector<std::shared_ptr<Stream>> displaced;
  for (const Bound& bound : kBounds) {
    while (bound.excess(all(), load, max_) > 0) {
      std::shared_ptr<Stream> one = displace(bound, names, load.*bound.measure);
      if (one == nullptr) continue;
      displaced.push_back(std::move(one));
      ++(refused_.*bound.measure);
    }
  }
  const uint64_t arrival = ++arrivals_;
  Share* share = &root_;
  for (const std::string& name : names) {
    std::unique_ptr<Share>& own = share->members[name];
    if (own == nullptr) {
      own = std::make_unique<Share>(Share{.parent = share, .name = name, .first_arrival = arrival});
      rank(own.get(), /*ranked=*/true);
    }
    share = own.get();
  }
  const Order order = {request.priority, arrival};
  places_[stream.get()] = {share, order};
  share->requests[order] = {load, stream.get(), stream};
  change(share, load, {});
  return displaced;
}

// Removes one request: it is taken from the network that has most, and there from the client that
// has most. The new request already counts for its own network and client. So if no other network
// or client has more, its own network or client loses a request.
std::shared_ptr<Stream> QueueShares::displace(const Bound& bound, const Names& names,
                                              int64_t more) {
  const Share* share = &root_;
  bool is_own = true;
  for (const std::string& name : names) {
    const Share* own = is_own ? member(*share, name) : nullptr;
    const auto& [has, first_arrival, top] = *share->ranks[bound.index].rbegin();
    const int64_t wanted = (own == nullptr ? 0 : own->load.*bound.measure) + more;
    is_own = is_own && has <= wanted;
    share = is_own ? own : top;
    LOCKSTEP_CHECK(share != nullptr);
  }
  const Waiting last = share->requests.rbegin()->second;
  leave(last.name);
  return last.stream.lock();
}

void QueueShares::rank(Share* share, bool ranked) {
  for (const Bound& bound : kBounds) {
    const Rank rank = {share->load.*bound.measure, share->first_arrival, share};
    std::set<Rank>& ranks = share->parent->ranks[bound.index];
    ranked ? static_cast<void>(ranks.insert(rank)) : static_cast<void>(ranks.erase(rank));
  }
}

void QueueShares::change(Share* client, const QueueLoad& more, const QueueLoad& less) {
  for (Share* share = client; share != nullptr; share = share->parent) {
    if (share->parent != nullptr) rank(share, /*ranked=*/false);
    share->load += more;
    share->load -= less;
    if (share->parent != nullptr) rank(share, /*ranked=*/true);
  }
}

void QueueShares::leave(const Stream* stream) {
  const auto place = places_.find(stream);
  if (place == places_.end()) return;
  const auto [client, order] = place->second;
  places_.erase(place);
  const auto request = client->requests.find(order);
  change(client, {}, request->second.load);
  client->requests.erase(request);
  for (Share* share = client; share->load.requests == 0 && share->parent != nullptr;) {
    Share* const parent = share->parent;
    rank(share, /*ranked=*/false);
    parent->members.erase(std::string(share->name));
    share = parent;
  }
}

void QueueShares::clear() {
  places_.clear();
  root_ = {};
}

}  // namespace lockstep

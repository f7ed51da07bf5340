// SPDX-License-Identifier: Apache-2.0
#include "coordinator/queue_shares.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace lockstep {

// One measure of what waits.
struct QueueShares::Bound {
  const char* what;
  int64_t QueueLoad::*measure;
  // A request that is larger than the bound is taken while the queue is empty.
  bool takes_one = true;

  // By how much `more` is too much, beside `waiting`.
  int64_t excess(const QueueLoad& waiting, const QueueLoad& more, const QueueLoad& max) const {
    if (takes_one && waiting.requests == 0) return 0;
    return std::max<int64_t>(waiting.*measure + more.*measure - max.*measure, 0);
  }
};

const QueueShares::Bound QueueShares::kBounds[] = {
    {"requests", &QueueLoad::requests, /*takes_one=*/false},
    {"choices", &QueueLoad::choices},
    {"prompt tokens", &QueueLoad::prompt_tokens},
    {"bytes", &QueueLoad::bytes},
};

bool QueueShares::can_give(const Bound& bound, int64_t share, int64_t room) const {
  int64_t given = 0;
  for (const auto& [name, client] : clients_) {
    given += std::max<int64_t>(client.load.*bound.measure - share, 0);
    if (given >= room) return true;
  }
  return room <= 0;
}

absl::Status QueueShares::check_bounds(const std::string& client, const QueueLoad& load) const {
  const auto known = clients_.find(client);
  for (const Bound& bound : kBounds) {
    const int64_t excess = bound.excess(all_, load, max_);
    if (excess == 0) continue;
    const int64_t own = known == clients_.end() ? 0 : known->second.load.*bound.measure;
    if (can_give(bound, own + load.*bound.measure, excess)) continue;
    return resource_exhausted(
        "the queue is full: {} {} wait, this request adds {}, the max is {}; try again later",
        all_.*bound.measure, bound.what, load.*bound.measure, max_.*bound.measure);
  }
  return absl::OkStatus();
}

absl::Status QueueShares::check(const std::string& client) const {
  return check_bounds(client, {.requests = 1});
}

absl::StatusOr<std::vector<std::shared_ptr<Stream>>> QueueShares::join(
    const std::string& client, const QueueLoad& load, const std::shared_ptr<Stream>& stream) {
  RETURN_IF_ERROR(check_bounds(client, load));
  std::vector<std::shared_ptr<Stream>> displaced;
  for (const Bound& bound : kBounds) {
    while (bound.excess(all_, load, max_) > 0) {
      if (std::shared_ptr<Stream> one = displace(bound)) displaced.push_back(std::move(one));
    }
  }
  const uint64_t arrival = ++arrivals_;
  places_[stream.get()] = {client, arrival};
  Client& own = clients_[client];
  own.load += load;
  own.requests[arrival] = {load, stream.get(), stream};
  all_ += load;
  return displaced;
}

std::shared_ptr<Stream> QueueShares::displace(const Bound& bound) {
  const auto most = std::ranges::max_element(
      clients_, {}, [&](const auto& client) { return client.second.load.*bound.measure; });
  LOCKSTEP_CHECK(most != clients_.end());
  const Waiting newest = most->second.requests.rbegin()->second;
  leave(newest.name);
  return newest.stream.lock();
}

void QueueShares::leave(const Stream* stream) {
  const auto place = places_.find(stream);
  if (place == places_.end()) return;
  const auto client = clients_.find(place->second.client);
  const auto request = client->second.requests.find(place->second.arrival);
  all_ -= request->second.load;
  client->second.load -= request->second.load;
  places_.erase(place);
  client->second.requests.erase(request);
  if (client->second.requests.empty()) clients_.erase(client);
}

void QueueShares::clear() {
  clients_.clear();
  places_.clear();
  all_ = {};
}

}  // namespace lockstep

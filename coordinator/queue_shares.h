// SPDX-License-Identifier: Apache-2.0
// How the engine's queue is shared: as long as there is room each client may have any part of it.
// Where it is full, a request of a client that has less takes the place of the newest one of the
// client that has most, so that no client keeps others out.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/engine_options.h"
#include "coordinator/stream.h"

namespace lockstep {

// One thread at a time. A stream is a request's name here and is not kept.
class QueueShares {
 public:
  explicit QueueShares(const QueueLoad& max) : max_(max) {}

  // Whether a request of this client, whose size is not known yet, may come.
  absl::Status check(const std::string& client) const;
  // The request waits from now on, until leave(). Gives the requests that make room for it: they
  // have left. kResourceExhausted names the bound that it would break; then nothing has changed.
  absl::StatusOr<std::vector<std::shared_ptr<Stream>>> join(const std::string& client,
                                                            const QueueLoad& load,
                                                            const std::shared_ptr<Stream>& stream);
  // It has begun or ended. Without effect for one that does not wait.
  void leave(const Stream* stream);
  void clear();
  // The requests that wait.
  const QueueLoad& all() const { return all_; }

 private:
  struct Waiting {
    QueueLoad load;
    const Stream* name;
    std::weak_ptr<Stream> stream;
  };
  struct Client {
    QueueLoad load;
    std::map<uint64_t, Waiting> requests;  // By arrival.
  };
  struct Place {
    std::string client;
    uint64_t arrival = 0;
  };
  struct Bound;

  absl::Status check_bounds(const std::string& client, const QueueLoad& load) const;
  // Whether clients with more than `share` of it have as much as `room` more together.
  bool can_give(const Bound& bound, int64_t share, int64_t room) const;
  std::shared_ptr<Stream> displace(const Bound& bound);  // Null: it is gone already.

  static const Bound kBounds[];

  const QueueLoad max_;
  std::unordered_map<std::string, Client> clients_;  // Those with requests that wait.
  std::unordered_map<const Stream*, Place> places_;
  QueueLoad all_;
  uint64_t arrivals_ = 0;
};

}  // namespace lockstep

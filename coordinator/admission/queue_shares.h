// SPDX-License-Identifier: Apache-2.0
// Shares the engine's queue: while there is room, a client may use any part of it. When it is full,
// a request of a client with fewer displaces one of the client with the most, so that no client
// keeps others out. Without API keys a client is a connection, and one host may open thousands: so
// the queue is shared first between the clients' networks (network_of()), then a network's part
// between its clients. A proxy's connections are of one network and share.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/engine/engine_options.h"
#include "coordinator/engine/engine_request.h"
#include "coordinator/streams/stream.h"

namespace lockstep {

// One thread at a time. A stream only identifies a request and is not kept. A call takes time
// logarithmic in the clients and linear in the displaced requests.
class QueueShares {
 public:
  explicit QueueShares(const QueueLoad& max) : max_(max) {}

  // Whether a request of this client, of unknown size, would be accepted.
  absl::Status check(const std::string& client);
  // The request waits from now on, until leave(). Returns the requests that it displaced, which
  // have left. A client's worst priority is displaced first, and of that the newest.
  // kResourceExhausted names the bound that it would exceed; then nothing has changed.
  absl::StatusOr<std::vector<std::shared_ptr<Stream>>> join(const EngineRequest& request,
                                                            const QueueLoad& load,
                                                            const std::shared_ptr<Stream>& stream);
  // It has begun or ended. No effect for one that does not wait.
  void leave(const Stream* stream);
  void clear();
  // The waiting requests.
  const QueueLoad& all() const { return root_.load; }
  // By bound: requests refused or displaced since the start.
  const QueueLoad& refused() const { return refused_; }

 private:
  struct Share;
  struct Bound;
  using Order = std::pair<int32_t, uint64_t>;          // Within a client: priority, arrival.
  using Rank = std::tuple<int64_t, uint64_t, Share*>;  // A member's measure and `since`.
  using Names = std::array<std::string, 2>;            // A network and a client in it.
  static constexpr size_t kMeasures = 4;

  struct Waiting {
    QueueLoad load;
    const Stream* name;
    std::weak_ptr<Stream> stream;
  };
  // The requests of all, of a network or of a client.
  struct Share {
    Share* parent = nullptr;
    std::string name = {};
    uint64_t since = 0;  // Among equals, the newest is displaced first.
    QueueLoad load = {};
    std::unordered_map<std::string, std::unique_ptr<Share>> members = {};  // With requests.
    std::array<std::set<Rank>, kMeasures> ranks = {};  // The members by each bound's measure.
    std::map<Order, Waiting> requests = {};            // A client's.
  };
  struct Place {
    Share* client = nullptr;
    Order order;
  };

  static Names names_of(const std::string& client);
  static Share* member(const Share& share, const std::string& name);  // Null: none.
  static void rank(Share* share, bool ranked);
  static void change(Share* client, const QueueLoad& more, const QueueLoad& less);
  absl::Status check_bounds(const Names& names, const QueueLoad& load);
  // Whether the others' excess over the named ones' measures, with `more`, is at least `room` in
  // total.
  bool can_give(const Bound& bound, const Names& names, int64_t more, int64_t room) const;
  // Null: it is gone already.
  std::shared_ptr<Stream> displace(const Bound& bound, const Names& names, int64_t more);

  static const std::array<Bound, kMeasures> kBounds;

  const QueueLoad max_;
  Share root_;
  QueueLoad refused_;
  std::unordered_map<const Stream*, Place> places_;
  uint64_t arrivals_ = 0;
};

}  // namespace lockstep

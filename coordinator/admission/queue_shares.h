// SPDX-License-Identifier: Apache-2.0
// Shares the engine's queue: while there is room, a client may use any part of it. When it is full,
// a new request of a client that has few requests displaces a request of the client that has most,
// so that no client keeps others out. Without API keys a client is a connection, and one host may
// open thousands of connections. Therefore the clients' networks (network_of()) share the queue,
// and the clients of a network share its part. All connections of a proxy share one network's part.
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
#include "base/text_map.h"
#include "coordinator/engine/engine_options.h"
#include "coordinator/engine/engine_request.h"
#include "coordinator/streams/stream.h"

namespace lockstep {

// One thread at a time. A stream only identifies a request and is not kept alive. A call takes time
// logarithmic in the number of clients and linear in the number of displaced requests.
class QueueShares {
 public:
  explicit QueueShares(const QueueLoad& max) : max_(max) {}

  // Whether a request of this client, of unknown size, would be accepted.
  absl::Status check(const std::string& client);
  // Adds a request, which waits until leave(). Returns the requests that it displaced; they have
  // left the queue. A client's newest request of its worst priority is displaced first.
  // kResourceExhausted names the bound that the request would exceed; nothing has changed.
  absl::StatusOr<std::vector<std::shared_ptr<Stream>>> join(const EngineRequest& request,
                                                            const QueueLoad& load,
                                                            const std::shared_ptr<Stream>& stream);
  // The request has begun or ended. No effect if it does not wait.
  void leave(const Stream* stream);
  void clear();
  // The waiting requests.
  const QueueLoad& all() const { return root_.load; }
  // The numbers of requests refused or displaced since the start, by the bound that was the cause.
  const QueueLoad& refused() const { return refused_; }

 private:
  struct Share;
  struct Bound;
  using Order = std::pair<int32_t, uint64_t>;          // Within a client: priority, arrival.
  using Rank = std::tuple<int64_t, uint64_t, Share*>;  // A member's measure and `first_arrival`.
  using Names = std::array<std::string, 2>;            // A network and a client in it.
  static constexpr size_t kMeasures = 4;

  struct Waiting {
    QueueLoad load;
    const Stream* name;
    std::weak_ptr<Stream> stream;
  };
  // The waiting requests of the whole queue, of a network or of a client.
  struct Share {
    Share* parent = nullptr;
    std::string name = {};
    // When its first request arrived. If several members have equally much, the newest one loses a
    // request.
    uint64_t first_arrival = 0;
    QueueLoad load = {};
    TextNodeMap<std::string, std::unique_ptr<Share>> members = {};  // Those with requests.
    std::array<std::set<Rank>, kMeasures> ranks = {};  // The members' order for each bound.
    std::map<Order, Waiting> requests = {};            // Empty unless it is a client.
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
  // Whether others can give up `room` for a new request. The request adds `more`, which already
  // counts for its own network and client. Another network can give the amount by which it exceeds
  // the request's network. In the request's network, another client can give the amount by which it
  // exceeds the request's client.
  bool can_give(const Bound& bound, const Names& names, int64_t more, int64_t room) const;
  // Removes one request. Null: its stream no longer exists.
  std::shared_ptr<Stream> displace(const Bound& bound, const Names& names, int64_t more);

  static const std::array<Bound, kMeasures> kBounds;

  const QueueLoad max_;
  Share root_;
  QueueLoad refused_;
  std::unordered_map<const Stream*, Place> places_;
  uint64_t arrivals_ = 0;
};

}  // namespace lockstep

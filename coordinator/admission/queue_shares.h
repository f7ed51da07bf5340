// SPDX-License-Identifier: Apache-2.0
// How the engine's queue is shared: as long as there is room each client may have any part of it.
// Where it is full, a request of a client that has less takes the place of one of the client that
// has most, so that no client keeps others out. Without API keys a client is a connection, and one
// host may open thousands: so the queue is shared between the networks that they come from first
// (network_of()), and a network's part between its clients. A proxy in front makes all one network,
// whose connections share.
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
#include "coordinator/engine/request.h"
#include "coordinator/streams/stream.h"

namespace lockstep {

// One thread at a time. A stream is a request's name here and is not kept. Each call takes time in
// the logarithm of the clients, and in the number of requests that it displaces.
class QueueShares {
 public:
  explicit QueueShares(const QueueLoad& max) : max_(max) {}

  // Whether a request of this client, whose size is not known yet, may come.
  absl::Status check(const std::string& client);
  // The request waits from now on, until leave(). Gives the requests that make room for it: they
  // have left. Of a client those of the worst priority make room first, and of these the newest.
  // kResourceExhausted names the bound that it would break; then nothing has changed.
  absl::StatusOr<std::vector<std::shared_ptr<Stream>>> join(const Request& request,
                                                            const QueueLoad& load,
                                                            const std::shared_ptr<Stream>& stream);
  // It has begun or ended. Without effect for one that does not wait.
  void leave(const Stream* stream);
  void clear();
  // The requests that wait.
  const QueueLoad& all() const { return root_.load; }
  // By bound, the requests that found no room or made it for others, since the beginning.
  const QueueLoad& refused() const { return refused_; }

 private:
  struct Share;
  struct Bound;
  using Order = std::pair<int32_t, uint64_t>;          // A client's requests: priority, arrival.
  using Rank = std::tuple<int64_t, uint64_t, Share*>;  // What a member has, and since when.
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
    uint64_t since = 0;  // Among equals the one that came last gives first.
    QueueLoad load = {};
    std::unordered_map<std::string, std::unique_ptr<Share>> members = {};  // Those with requests.
    std::array<std::set<Rank>, kMeasures> ranks = {};  // The members by each bound's measure.
    std::map<Order, Waiting> requests = {};            // Of a client.
  };
  struct Place {
    Share* client = nullptr;
    Order order;
  };

  static Names names_of(const std::string& client);
  static Share* member(const Share& share, const std::string& name);  // Null: it has none.
  static void rank(Share* share, bool ranked);
  static void change(Share* client, const QueueLoad& more, const QueueLoad& less);
  absl::Status check_bounds(const Names& names, const QueueLoad& load);
  // Whether those that have more than the named ones would, with `more`, exceed it by `room`
  // together.
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

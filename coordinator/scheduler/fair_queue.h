// SPDX-License-Identifier: Apache-2.0
// The order in which prompts are computed: by priority, then by deficit round robin between clients
// (Shreedhar and Varghese, 1995), measured in rows.
//
// Clients of one priority get quanta of kQuantumRows rows, both for running prompts and for waiting
// sequences; each client's oldest is first. A client that has nothing to compute loses the rest of
// its quantum. So a client that sends much, or much at once, delays itself.
//
// Among waiting sequences, those of requests that have begun start before all others of their
// priority: a request that has begun comes to its end, however many others arrive. The time to plan
// a step grows with the clients that compute or start in it, not with the waiting clients.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "coordinator/scheduler/sequences/sequence.h"

namespace lockstep {

inline constexpr int64_t kQuantumRows = 64;

// The order in which sequences are served, apart from rounds: by priority, then by age.
struct ServedBefore {
  bool operator()(const Sequence* a, const Sequence* b) const {
    const int32_t left = a->request().priority, right = b->request().priority;
    return left != right ? left < right : a->number() < b->number();
  }
};

// Used by the engine's thread alone.
class FairQueue {
 public:
  // The sequences that may start in the rest of a step.
  enum class Starters { kAll, kBegun, kNone };

  // Adds or removes a waiting sequence.
  void add(Sequence* sequence);
  void remove(Sequence* sequence);
  int64_t size() const { return size_; }
  // The number of clients with waiting sequences or, in this step, prompts to compute.
  int64_t clients() const;

  // Begins the plan of a step. `prompts`: running sequences whose prompt is not computed yet, in
  // order.
  void begin(std::span<Sequence* const> prompts);
  // The next sequence, and how many rows of its quantum are left; null: none.
  Sequence* next();
  int64_t rows_left() const { return current_->rows_left; }
  // The next sequence starts to run; next() still returns it.
  void start();
  // The next sequence runs and got `rows` rows, maybe more than are left of its quantum if they had
  // to be computed at once; `all`: it needs no more in this step.
  void take(int64_t rows, bool all);
  // The next sequence cannot start. In this step its client starts none, other clients of its
  // priority start only `others`, and worse priorities start none.
  void block(Starters others);

 private:
  struct Share;
  struct EarlierRound {
    bool operator()(const Share* a, const Share* b) const { return a->round < b->round; }
  };
  using ByRound = std::set<Share*, EarlierRound>;
  // One client's sequences of one priority; empty only for a moment.
  struct Share {
    int32_t priority = 0;
    std::string client = {};
    uint64_t round = 0;  // The lowest is next.
    std::set<Sequence*, ServedBefore> waiting = {};
    std::vector<Sequence*> prompts = {};  // In this step; the oldest is last.
    int64_t rows_left = 0;                // The rest of its quantum.
    bool blocked = false;                 // In this step.
    ByRound* place = nullptr;             // The set that it is in; null: none.
  };
  struct Ring {
    std::unordered_map<std::string, Share> shares;  // By client.
    // Shares with prompts are in `computing`. `begun` has the other shares whose oldest sequence
    // belongs to a request that has begun; `fresh` has the rest. Blocked shares are in none of the
    // three.
    ByRound computing, begun, fresh;
  };

  Share& share_of(const Sequence& sequence);
  // Call after a change: moves the share to the right set, or deletes it.
  void settle(Share& share);
  Share* next_in(Ring& ring, bool may_start) const;

  std::map<int32_t, Ring> rings_;       // By priority.
  Share* current_ = nullptr;            // The share of next()'s result.
  std::vector<Share*> blocked_;         // In this step. Their sequences may be gone.
  int32_t blocked_priority_ = 0;        // The priority of the last blocked one.
  Starters starters_ = Starters::kAll;  // For that priority.
  uint64_t rounds_ = 0;
  int64_t size_ = 0;
};

}  // namespace lockstep

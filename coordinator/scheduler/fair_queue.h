// SPDX-License-Identifier: Apache-2.0
// The order in which prompts are computed: by priority, then by deficit round robin between clients
// (Shreedhar and Varghese, 1995), measured in rows.
//
// Clients of one priority get quanta of kQuantumRows rows, both for running prompts and for waiting
// sequences. A client's oldest sequence comes first. A client that has nothing to compute loses the
// rest of its quantum. So a client that sends much, or much at once, delays itself.
//
// A request has begun when its first sequence has run. Among waiting sequences of one priority,
// those of such requests start first, so a request that has begun finishes, however many others
// arrive. The time to plan a step grows with the clients that compute or start in it, not with the
// waiting clients.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/text_map.h"
#include "coordinator/scheduler/sequences/sequence.h"

namespace lockstep {

inline constexpr int64_t kQuantumRows = 64;

// The order of sequences where clients do not alternate: by priority, then by age.
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
  // the order of ServedBefore.
  void begin(std::span<Sequence* const> prompts);
  // The next sequence (null: none), and how many rows of its client's quantum are left.
  Sequence* next();
  int64_t rows_left() const { return current_->rows_left; }
  // The next sequence starts to run; next() still returns it.
  void start();
  // Gives `rows` rows to the next sequence, which runs. They may be more than its client's quantum
  // has left if they can only be computed together. `all`: the sequence needs no more rows in this
  // step.
  void take(int64_t rows, bool all);
  // The next sequence cannot start. In this step its client starts no more sequences, other clients
  // of its priority start only `others`, and clients of worse priorities start none.
  void block(Starters others);

 private:
  struct Share;
  struct EarlierRound {
    bool operator()(const Share* a, const Share* b) const { return a->round < b->round; }
  };
  using ByRound = std::set<Share*, EarlierRound>;
  // One client's sequences of one priority. Deleted by settle() when there are none.
  struct Share {
    int32_t priority = 0;
    std::string client = {};
    uint64_t round = 0;  // The share with the lowest round is next.
    std::set<Sequence*, ServedBefore> waiting = {};
    std::vector<Sequence*> prompts = {};  // In this step; the oldest is last.
    int64_t rows_left = 0;                // The rows that its quantum has left.
    bool blocked = false;                 // In this step.
    ByRound* set = nullptr;               // The set of the Ring that has this share; null: none.
  };
  struct Ring {
    TextNodeMap<std::string, Share> shares;  // By client.
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
  std::vector<Share*> blocked_;         // In this step. They may have no sequences any more.
  int32_t blocked_priority_ = 0;        // The priority of the last blocked share.
  Starters starters_ = Starters::kAll;  // The sequences of that priority that may start.
  uint64_t rounds_ = 0;
  int64_t size_ = 0;
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// Whose prompt is computed next: priorities first, then deficit round robin between clients
// (Shreedhar and Varghese, 1995), measured in rows.
//
// Clients of one priority take turns of kTurnRows rows, for prompts that run and for sequences that
// wait; each serves its own oldest first. A client that has nothing to compute loses what is left
// of its turn. So a client that asks for much, or much at once, delays itself.
//
// Of sequences that wait, those of requests that have begun start before all others of their
// priority: what was begun ends, however many come. A step costs the clients that compute or start
// in it, not all that wait.
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

inline constexpr int64_t kTurnRows = 64;

// The order in which sequences are served, but for turns: by priority, then as they came.
struct ServedBefore {
  bool operator()(const Sequence* a, const Sequence* b) const {
    const int32_t left = a->request().priority, right = b->request().priority;
    return left != right ? left < right : a->number() < b->number();
  }
};

// Used by the engine's thread alone.
class FairQueue {
 public:
  // Who may start in what is left of a step.
  enum class Starters { kAll, kBegun, kNobody };

  // Of those that wait.
  void add(Sequence* sequence);
  void remove(Sequence* sequence);
  int64_t size() const { return size_; }
  // How many clients have something that waits or, in this step, prompt to compute.
  int64_t clients() const;

  // A step is planned; these sequences run and have prompt to compute. In order.
  void begin(std::span<Sequence* const> prompts);
  // Who is next, and how many rows of its turn are left; null: nobody.
  Sequence* next();
  int64_t rows_left() const { return current_->rows_left; }
  // The one that is next waits no more: it runs, and is still next.
  void start();
  // The one that is next runs and got these rows, more than are left of its turn where they had to
  // be computed at once; `all`: it can use no more.
  void take(int64_t rows, bool all);
  // There is no room for the one that is next: in this step none of its client's is started, of its
  // priority only `others`, and of worse ones nobody.
  void block(Starters others);

 private:
  struct Share;
  struct EarlierTurn {
    bool operator()(const Share* a, const Share* b) const { return a->turn < b->turn; }
  };
  using Turns = std::set<Share*, EarlierTurn>;
  // What one client wants at one priority; it wants something, but for a moment.
  struct Share {
    int32_t priority = 0;
    std::string client = {};
    uint64_t turn = 0;  // The lowest has its turn.
    std::set<Sequence*, ServedBefore> waiting = {};
    std::vector<Sequence*> prompts = {};  // Of this step: the oldest is last.
    int64_t rows_left = 0;                // Of its turn.
    bool blocked = false;                 // In this step.
    Turns* place = nullptr;               // Where it waits for its turn; null: nowhere.
  };
  struct Ring {
    std::unordered_map<std::string, Share> shares;  // By client.
    // Those with prompts, and of the others those whose oldest belongs to a request that has begun
    // or has not; blocked ones are in none.
    Turns computing, begun, fresh;
  };

  Share& share_of(const Sequence& sequence);
  // What it wants has changed: it waits where it belongs, or goes away.
  void settle(Share& share);
  Share* next_in(Ring& ring, bool may_start) const;

  std::map<int32_t, Ring> rings_;       // By priority.
  Share* current_ = nullptr;            // Of what next() gave.
  std::vector<Share*> blocked_;         // In this step. They have waiting ones, unless these left.
  int32_t blocked_priority_ = 0;        // Of the last one that was blocked.
  Starters starters_ = Starters::kAll;  // Of that priority.
  uint64_t turns_ = 0;
  int64_t size_ = 0;
};

}  // namespace lockstep

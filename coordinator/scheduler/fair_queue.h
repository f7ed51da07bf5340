// SPDX-License-Identifier: Apache-2.0
// Whose prompt is computed next: priorities first, then deficit round robin between clients
// (Shreedhar and Varghese, 1995), measured in rows.
//
// Clients of one priority take turns of kTurnRows rows, for prompts that run and for sequences that
// wait; each serves its own oldest first. A client that has nothing to compute loses what is left
// of its turn. So a client that asks for much, or much at once, delays itself.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "coordinator/scheduler/sequence.h"

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
  // Of those that wait.
  void add(Sequence* sequence);
  void remove(Sequence* sequence);
  int64_t size() const { return size_; }

  // A step is planned; these sequences run and have prompt to compute. In order.
  void begin(std::span<Sequence* const> prompts);
  // Who is next, and how many rows of its turn are left; null: nobody.
  Sequence* next();
  int64_t rows_left() const { return current_->rows_left; }
  // The one that is next waits no more: it runs, and is still next.
  void start();
  // The one that is next runs and got these rows; `all`: it can use no more.
  void take(int64_t rows, bool all);
  // There is no room for the one that is next: none of its client's is started in this step.
  void block() { current_->blocked = true; }

 private:
  // What one client wants at one priority.
  struct Share {
    std::string client;
    std::set<Sequence*, ServedBefore> waiting = {};
    std::vector<Sequence*> prompts = {};  // Of this step: the oldest is last.
    int64_t rows_left = 0;                // Of its turn.
    bool blocked = false;                 // In this step.
    bool idle() const { return waiting.empty() && prompts.empty(); }
  };
  struct Ring {
    std::list<Share> shares;  // The first one has its turn.
    std::unordered_map<std::string, std::list<Share>::iterator> by_client;
  };

  Share& share_of(const Sequence& sequence);
  Sequence* next_in(Ring& ring);

  std::map<int32_t, Ring> rings_;  // By priority.
  Ring* ring_ = nullptr;           // Of what next() gave.
  std::list<Share>::iterator current_;
  int64_t size_ = 0;
};

}  // namespace lockstep

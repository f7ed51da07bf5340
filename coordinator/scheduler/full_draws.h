// SPDX-License-Identifier: Apache-2.0
// Turns for draws that only all logits of a row decide (sampling/sampler.h). The engine fetches
// these and selects from them one after the other: many in one step would hold up all others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>

#include "coordinator/scheduler/sequences/sequence.h"

namespace lockstep {

// The max number of such draws in a step, beside first draws and that of the first in order.
inline constexpr size_t kFullDraws = 4;
// The max number of sequences that start in a step and whose first draw may be one.
inline constexpr int kFirstDraws = 16;

class FullDraws {
 public:
  // The last draw of a sequence: the next one mostly is of the same kind.
  void note(const Sequence* sequence, bool needed_all_logits);
  void forget(const Sequence* sequence) { turns_.erase(sequence); }
  // Leaves the rows of running sequences without a turn to a later step. `running` is in order.
  // Clients take turns, and within a client the sequence whose turn is longest ago is next.
  void limit(std::span<Sequence* const> running);

 private:
  std::unordered_map<const Sequence*, uint64_t> turns_;  // Its last one; 0: none yet.
  uint64_t steps_ = 0;
};

}  // namespace lockstep

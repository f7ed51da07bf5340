// SPDX-License-Identifier: Apache-2.0
// Limits full draws: draws that need all logits of a row (sampling/sampler.h). The engine fetches
// these logits row after row: many full draws in one step would delay all other sequences.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>

#include "coordinator/scheduler/sequences/sequence.h"

namespace lockstep {

// Max full draws per step, besides first draws. The first sequence in order may always draw.
inline constexpr size_t kFullDraws = 4;
// The max number of sequences that start in one step and whose first draw may be a full draw.
inline constexpr int kFirstDraws = 16;

class FullDraws {
 public:
  // Notes a sequence's last draw: the next one is usually of the same kind.
  void note(const Sequence* sequence, bool needed_all_logits);
  void forget(const Sequence* sequence) { last_full_.erase(sequence); }
  // Sets planned() to 0 for running sequences beyond the limit: they wait for a later step.
  // `running` is in the order of ServedBefore. Clients alternate. Among a client's sequences, the
  // one whose last full draw is the oldest is first.
  void limit(std::span<Sequence* const> running);

 private:
  // The step of the last full draw that limit() allowed; 0: none yet.
  std::unordered_map<const Sequence*, uint64_t> last_full_;
  uint64_t steps_ = 0;
};

}  // namespace lockstep

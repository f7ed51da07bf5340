// SPDX-License-Identifier: Apache-2.0
#include "coordinator/scheduler/full_draws.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

void FullDraws::note(const Sequence* sequence, bool needed_all_logits) {
  if (needed_all_logits) {
    turns_.try_emplace(sequence);
  } else {
    turns_.erase(sequence);
  }
}

void FullDraws::limit(std::span<Sequence* const> running) {
  ++steps_;
  std::vector<Sequence*> full;
  for (Sequence* sequence : running) {
    if (sequence->planned() > 0 && turns_.contains(sequence)) full.push_back(sequence);
  }
  const auto last_turn = [this](const Sequence* sequence) { return turns_.at(sequence); };
  std::ranges::stable_sort(full, {}, last_turn);
  // Pairs each with the number of its client's sequences whose last turn is older.
  std::unordered_map<std::string_view, size_t> earlier;
  std::vector<std::pair<size_t, Sequence*>> turns;
  for (Sequence* sequence : full) {
    turns.emplace_back(earlier[sequence->request().client]++, sequence);
  }
  std::ranges::stable_sort(turns, {}, &std::pair<size_t, Sequence*>::first);
  for (size_t i = 0; i < turns.size(); ++i) {
    Sequence* sequence = turns[i].second;
    if (i < kFullDraws || sequence == running[0]) {
      turns_[sequence] = steps_;
    } else {
      sequence->set_planned(0);
    }
  }
}

}  // namespace lockstep

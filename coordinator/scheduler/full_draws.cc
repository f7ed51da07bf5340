// SPDX-License-Identifier: Apache-2.0
#include "coordinator/scheduler/full_draws.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text_map.h"

namespace lockstep {

void FullDraws::note(const Sequence* sequence, bool needed_all_logits) {
  if (needed_all_logits) {
    last_full_.try_emplace(sequence);
  } else {
    last_full_.erase(sequence);
  }
}

void FullDraws::limit(std::span<Sequence* const> running) {
  ++steps_;
  std::vector<Sequence*> full;
  for (Sequence* sequence : running) {
    if (sequence->planned() > 0 && last_full_.contains(sequence)) full.push_back(sequence);
  }
  const auto last_full = [this](const Sequence* sequence) { return last_full_.at(sequence); };
  std::ranges::stable_sort(full, {}, last_full);
  // Pairs each sequence with the number of its client's sequences whose last full draw is older.
  TextMap<std::string_view, size_t> earlier;
  std::vector<std::pair<size_t, Sequence*>> order;
  for (Sequence* sequence : full) {
    order.emplace_back(earlier[sequence->request().client]++, sequence);
  }
  std::ranges::stable_sort(order, {}, &std::pair<size_t, Sequence*>::first);
  for (size_t i = 0; i < order.size(); ++i) {
    Sequence* sequence = order[i].second;
    if (i < kFullDraws || sequence == running[0]) {
      last_full_[sequence] = steps_;
    } else {
      sequence->set_planned(0);
    }
  }
}

}  // namespace lockstep

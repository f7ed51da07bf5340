// SPDX-License-Identifier: Apache-2.0
// The logit edits of an output: its own, and those that it shares with other outputs of its step.
#pragma once

#include <cstdint>

#include "proto/cluster.pb.h"

namespace lockstep {

// Appends an edit. `id` is above the ids in the list.
void add_edit(int32_t id, float repetition, float add, cluster::LogitEdits* edits);

// The shared edits of an output of the step, or an empty list. The output's index of shared edits
// must be valid.
const cluster::LogitEdits& shared_edits_of(const cluster::Step& step,
                                           const cluster::Output& output);

// Replaces the output's edits by all that apply to it: the output's own edits, and from `shared`
// the edits of all other ids. Afterwards the output shares no edits.
void merge_shared_edits(const cluster::LogitEdits& shared, cluster::Output* output);
// A copy of an output of the step, after merge_shared_edits().
cluster::Output with_shared_edits(const cluster::Step& step, cluster::Output output);

// Calls take(id, repetition, add) for every edit that applies to an output, in ascending order of
// ids: an edit in `own` replaces one in `shared`. Both lists are valid.
template <typename Take>
void for_each_edit(const cluster::LogitEdits& shared, const cluster::LogitEdits& own, Take take) {
  const auto give = [&](const cluster::LogitEdits& edits, int i) {
    take(edits.ids(i), edits.repetition(i), edits.add(i));
  };
  int s = 0;
  for (int o = 0; o < own.ids_size(); ++o) {
    for (; s < shared.ids_size() && shared.ids(s) < own.ids(o); ++s) give(shared, s);
    if (s < shared.ids_size() && shared.ids(s) == own.ids(o)) ++s;
    give(own, o);
  }
  for (; s < shared.ids_size(); ++s) give(shared, s);
}

}  // namespace lockstep

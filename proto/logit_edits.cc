// SPDX-License-Identifier: Apache-2.0
#include "proto/logit_edits.h"

#include <utility>

namespace lockstep {

void add_edit(int32_t id, float repetition, float add, cluster::LogitEdits* edits) {
  edits->add_ids(id);
  edits->add_repetition(repetition);
  edits->add_add(add);
}

const cluster::LogitEdits& shared_edits_of(const cluster::Step& step,
                                           const cluster::Output& output) {
  if (output.shared_edits() == 0) return cluster::LogitEdits::default_instance();
  return step.shared_edits(output.shared_edits() - 1);
}

void merge_shared_edits(const cluster::LogitEdits& shared, cluster::Output* output) {
  cluster::LogitEdits all;
  for_each_edit(shared, output->edits(), [&](int32_t id, float repetition, float add) {
    add_edit(id, repetition, add, &all);
  });
  *output->mutable_edits() = std::move(all);
  output->clear_shared_edits();
}

cluster::Output with_shared_edits(const cluster::Step& step, cluster::Output output) {
  merge_shared_edits(shared_edits_of(step, output), &output);
  return output;
}

}  // namespace lockstep

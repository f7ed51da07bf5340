// SPDX-License-Identifier: Apache-2.0
// Steps and a worker's answers, for tests.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "proto/cluster.pb.h"

namespace lockstep {

// Appends rows of one sequence to a step, and names all pages of the sequence. `output`: requests
// the logits and the best token of the last row.
inline void add_rows(cluster::Step& step, const std::vector<int32_t>& tokens,
                     int64_t first_position, const std::vector<int32_t>& pages,
                     bool output = true) {
  for (const int32_t token : tokens) step.add_tokens(token);
  cluster::StepSequence* sequence = step.add_sequences();
  sequence->set_rows(static_cast<int64_t>(tokens.size()));
  sequence->set_first_position(first_position);
  sequence->set_slot(step.sequences_size() - 1);
  sequence->set_begins(true);
  for (const int32_t page : pages) sequence->add_pages(page);
  if (!output) return;
  cluster::Output* last = step.add_outputs();
  last->set_row(step.tokens_size() - 1);
  last->set_position(first_position + static_cast<int64_t>(tokens.size()));
  last->set_top_count(1);
  last->set_want_logits(true);
}

// The same for a sequence that keeps its slot: pages are named only at position 0, where it begins.
inline void add_rows_in_slot(cluster::Step& step, int32_t slot, const std::vector<int32_t>& tokens,
                             int64_t first_position, const std::vector<int32_t>& pages,
                             bool output = true) {
  add_rows(step, tokens, first_position, pages, output);
  cluster::StepSequence& sequence = *step.mutable_sequences(step.sequences_size() - 1);
  sequence.set_slot(slot);
  sequence.set_begins(first_position == 0);
  if (first_position > 0) sequence.clear_pages();
}

inline std::vector<float> floats_of(const std::string& bytes) {
  std::vector<float> floats(bytes.size() / sizeof(float));
  std::memcpy(floats.data(), bytes.data(), floats.size() * sizeof(float));
  return floats;
}

// The logits of an output over the whole vocabulary, from the answers of all ranks.
inline std::vector<float> logits_of(const std::vector<cluster::StepResult>& results, int output) {
  std::string bytes;
  for (const cluster::StepResult& result : results) bytes += result.outputs(output).logits();
  return floats_of(bytes);
}

// The best token of an output, from the best tokens of all ranks.
inline int32_t best_of(const std::vector<cluster::StepResult>& results, int output) {
  const cluster::CandidateList* best = nullptr;
  for (const cluster::StepResult& result : results) {
    const cluster::CandidateList& top = result.outputs(output).top();
    if (top.ids_size() == 0) continue;
    if (best == nullptr || top.edited(0) > best->edited(0)) best = &top;
  }
  return best == nullptr ? -1 : best->ids(0);
}

}  // namespace lockstep

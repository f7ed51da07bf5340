// SPDX-License-Identifier: Apache-2.0
// A step that was sent to the group, and the use of its outputs: some draw tokens, others score
// tokens of a prompt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "coordinator/sampling/sampler.h"
#include "coordinator/scheduler/batch.h"
#include "coordinator/streams/stream.h"
#include "proto/cluster.pb.h"

namespace lockstep {

using StepResults = std::shared_ptr<const std::vector<cluster::StepResult>>;

// All ranks' answers to one output. They point into `results`.
RankCandidates answers_to(int output, const std::vector<cluster::StepResult>& results);

// Tokens [begin, end) of a prompt, scored by successive outputs; the first token of a prompt has no
// score.
struct PromptScores {
  Sequence* sequence = nullptr;
  int64_t begin = 0;
  int64_t end = 0;
  int first_output = 0;
  StepResults results = nullptr;
};
// The events that send the scores to the reader, several tokens in each.
std::vector<StreamEvent> score_events(const PromptScores& scores);

// The sequences outlive this object.
struct StepInFlight {
  struct Draw {
    Sequence* sequence = nullptr;
    int output = 0;
  };

  // Marks the pages of `batch` as sent. `trace`: ranks are asked for their operators' times.
  StepInFlight(Batch batch_to_run, uint64_t number, bool trace);

  Batch batch;
  std::shared_ptr<const cluster::Step> step;
  std::vector<Draw> draws;           // In the order of outputs.
  std::vector<PromptScores> scores;  // Without `results` until the group answers.
  StepResults results;               // Null until the group answered.
  size_t next = 0;                   // The index of the next draw.
  bool fetching = false;
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// Outputs are numbered in make_step()'s order: sequence by sequence, row by row.
#include "coordinator/engine/step_in_flight.h"

#include <algorithm>
#include <utility>

namespace lockstep {
namespace {

// The max prompt tokens per event. The number is small, so that a reader that keeps up has few
// unread bytes, even if the answer has 64 choices and repeats the prompt in each.
constexpr int64_t kScoresPerEvent = 64;

}  // namespace

RankCandidates answers_to(int output, const std::vector<cluster::StepResult>& results) {
  RankCandidates ranks;
  ranks.reserve(results.size());
  for (const cluster::StepResult& result : results) ranks.push_back(&result.outputs(output));
  return ranks;
}

std::vector<StreamEvent> score_events(const PromptScores& scores) {
  const Sequence& sequence = *scores.sequence;
  const int32_t best = sequence.request().prompt_logprobs;
  int output = scores.first_output;
  std::vector<StreamEvent> events;
  for (int64_t begin = scores.begin; begin < scores.end; begin += kScoresPerEvent) {
    StreamEvent event = {.index = sequence.index(), .seed = sequence.seed()};
    const int64_t end = std::min(begin + kScoresPerEvent, scores.end);
    for (int64_t position = begin; position < end; ++position) {
      const int32_t token = sequence.token(position);
      event.prompt_logprobs.push_back(
          position == 0 ? std::vector<Logprob>{{.id = token}}
                        : score(token, best, answers_to(output++, *scores.results)));
    }
    events.push_back(std::move(event));
  }
  return events;
}

StepInFlight::StepInFlight(Batch batch_to_run, uint64_t number, bool trace)
    : batch(std::move(batch_to_run)) {
  int output = 0;
  for (Sequence* sequence : batch.sequences) {
    const int64_t computed = sequence->computed();
    const int64_t wanted = sequence->wanted_rows(computed, sequence->planned());
    const int64_t scored = sequence->scored_by(computed + sequence->planned());
    if (scored > sequence->scored()) {
      scores.push_back({.sequence = sequence,
                        .begin = sequence->scored(),
                        .end = scored,
                        .first_output = output});
    }
    output += static_cast<int>(wanted);
    const bool is_last = sequence->planned() == sequence->remaining();
    if (is_last) draws.push_back({.sequence = sequence, .output = output - 1});
  }
  cluster::Step message = make_step(batch, number);
  message.set_trace(trace);
  step = std::make_shared<const cluster::Step>(std::move(message));
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// Runs the sampler over the toy model's logits, token by token.
#include "tests/simulation/coordinator/alone.h"

#include <utility>

#include "coordinator/sampling/sampler.h"
#include "coordinator/scheduler/sequences/sequence.h"
#include "proto/logit_edits.h"

namespace lockstep::simulation {

Alone run_alone(const FakeModel& model, const PreparedRequest& prepared, int32_t choice) {
  const EngineRequest& request = prepared.request();
  const int64_t context = fake_info(model, 1).servable_context();
  Sequence sequence(prepared, choice, context, nullptr, nullptr);
  sequence.start(0);
  std::vector<int32_t> history = request.prompt_ids;
  Alone alone;
  if (request.prompt_logprobs >= 0 && choice == 0) {
    alone.prompt_logprobs = {{{.id = history[0]}}};
    for (auto next = history.begin() + 1; next != history.end(); ++next) {
      const cluster::Output output = plan_score(*next, request.prompt_logprobs);
      const cluster::Candidates all =
          fake_candidates(output, fake_logits(model, {history.begin(), next}), 0, model.vocab);
      alone.prompt_logprobs.push_back(score(*next, request.prompt_logprobs, {&all}));
    }
  }
  if (!sequence.draws()) alone.finish_reason = FinishReason::kLength;
  while (alone.finish_reason == FinishReason::kNone) {
    sequence.advance(sequence.remaining());
    cluster::Output output = sequence.plan();
    merge_shared_edits(prepared.rules().shared_edits(), &output);
    const std::vector<float> logits = fake_logits(model, history);
    const cluster::Candidates all = fake_candidates(output, logits, 0, model.vocab);
    std::optional<Sampled> sampled = sample(request.sampling, output, request.logprobs, {&all});
    if (!sampled.has_value()) {
      absl::StatusOr<Sampled> drawn =
          sample_from_logits(request.sampling, output, request.logprobs, {&all}, logits);
      if (!drawn.ok()) return alone;
      sampled = *std::move(drawn);
    }
    history.push_back(sampled->id);
    alone.tokens.push_back(sampled->id);
    if (request.logprobs >= 0) alone.logprobs.push_back(std::move(sampled->logprobs));
    sequence.append(sampled->id);
    alone.finish_reason = sequence.take_update().finish_reason;
  }
  return alone;
}

}  // namespace lockstep::simulation

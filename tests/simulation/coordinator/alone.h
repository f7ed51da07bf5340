// SPDX-License-Identifier: Apache-2.0
// What a request gives when nothing else is there: no batch, no paging, one rank.
#pragma once

#include <vector>

#include "coordinator/scheduler/sequences/prepared_request.h"
#include "coordinator/streams/stream.h"
#include "tests/support/cluster/fake_group.h"

namespace lockstep::simulation {

struct Alone {
  std::vector<int32_t> tokens;
  std::vector<std::vector<Logprob>> logprobs;
  std::vector<std::vector<Logprob>> prompt_logprobs;
  FinishReason finish_reason = FinishReason::kNone;  // None: no token can be drawn.
};

Alone run_alone(const FakeModel& model, const PreparedRequest& request, int32_t choice);

}  // namespace lockstep::simulation

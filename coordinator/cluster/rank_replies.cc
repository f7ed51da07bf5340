// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cluster/rank_replies.h"

#include <string_view>
#include <utility>

#include "base/status.h"
#include "proto/candidates.h"

namespace lockstep {

std::vector<cluster::StepResult> results_of(std::vector<cluster::WorkerMessage> replies) {
  std::vector<cluster::StepResult> results;
  results.reserve(replies.size());
  for (cluster::WorkerMessage& reply : replies) {
    results.push_back(std::move(*reply.mutable_result()));
  }
  return results;
}

absl::StatusOr<std::vector<float>> logits_of(const std::vector<cluster::WorkerMessage>& replies,
                                             int64_t vocab) {
  std::vector<std::string_view> slices;
  slices.reserve(replies.size());
  for (const cluster::WorkerMessage& reply : replies) slices.push_back(reply.logits().logits());
  std::vector<float> logits = join_logits(slices);
  if (static_cast<int64_t>(logits.size()) == vocab) return logits;
  return unavailable("the ranks sent {} logits of {}", logits.size(), vocab);
}

}  // namespace lockstep

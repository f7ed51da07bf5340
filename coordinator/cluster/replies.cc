// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cluster/replies.h"

#include <cstring>
#include <utility>

#include "base/status.h"

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
  std::vector<float> logits;
  logits.reserve(vocab);
  for (const cluster::WorkerMessage& reply : replies) {
    const std::string& bytes = reply.logits().logits();
    if (bytes.empty()) continue;  // A rank without a slice.
    const size_t begin = logits.size();
    logits.resize(begin + bytes.size() / sizeof(float));
    std::memcpy(logits.data() + begin, bytes.data(), bytes.size());
  }
  if (static_cast<int64_t>(logits.size()) != vocab) {
    return unavailable("the ranks sent {} logits of {}", logits.size(), vocab);
  }
  return logits;
}

}  // namespace lockstep

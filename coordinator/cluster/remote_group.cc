// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cluster/remote_group.h"

#include <cstring>

#include "base/status.h"

namespace lockstep {

RemoteGroup::RemoteGroup(GroupInfo info, std::shared_ptr<Epoch> epoch, absl::Duration step_timeout)
    : info_(std::move(info)), epoch_(std::move(epoch)), step_timeout_(step_timeout) {}

RemoteGroup::~RemoteGroup() {
  cluster::CoordinatorMessage message;
  message.mutable_abort()->set_reason("the group was dissolved");
  epoch_->broadcast(message);
}

absl::StatusOr<std::vector<cluster::WorkerMessage>> RemoteGroup::exchange(
    cluster::CoordinatorMessage message) {
  epoch_->broadcast(message);
  return epoch_->collect(step_timeout_);
}

absl::StatusOr<std::vector<cluster::StepResult>> RemoteGroup::run(const cluster::Step& step) {
  cluster::CoordinatorMessage message;
  *message.mutable_step() = step;
  ASSIGN_OR_RETURN(std::vector<cluster::WorkerMessage> replies, exchange(std::move(message)));
  std::vector<cluster::StepResult> results;
  results.reserve(replies.size());
  for (int rank = 0; rank < info_.ranks; ++rank) {
    cluster::WorkerMessage& reply = replies[rank];
    if (!reply.has_result() || reply.result().step() != step.step() ||
        reply.result().outputs_size() != step.outputs_size()) {
      return unavailable("rank {} answered step {} with something else", rank, step.step());
    }
    results.push_back(std::move(*reply.mutable_result()));
  }
  return results;
}

absl::StatusOr<std::vector<float>> RemoteGroup::logits(uint64_t step, int output) {
  cluster::CoordinatorMessage message;
  message.mutable_logits()->set_step(step);
  message.mutable_logits()->set_output(output);
  ASSIGN_OR_RETURN(std::vector<cluster::WorkerMessage> replies, exchange(std::move(message)));
  std::vector<float> logits;
  logits.reserve(info_.vocab);
  for (const cluster::WorkerMessage& reply : replies) {
    const std::string& bytes = reply.logits().logits();
    if (bytes.empty()) continue;  // A rank without a slice.
    const size_t begin = logits.size();
    logits.resize(begin + bytes.size() / sizeof(float));
    std::memcpy(logits.data() + begin, bytes.data(), bytes.size() / sizeof(float) * sizeof(float));
  }
  if (static_cast<int64_t>(logits.size()) != info_.vocab) {
    return unavailable("the ranks sent {} logits of {}", logits.size(), info_.vocab);
  }
  return logits;
}

void RemoteGroup::abort() { epoch_->fail(absl::CancelledError("the step was cancelled")); }

}  // namespace lockstep

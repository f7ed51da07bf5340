// SPDX-License-Identifier: Apache-2.0
// A group of workers over gRPC: sends the same Step to every rank and waits for their candidates.
#pragma once

#include <memory>

#include "absl/time/time.h"
#include "coordinator/cluster/epoch.h"
#include "coordinator/cluster/group.h"

namespace lockstep {

// Used by the engine's thread; abort() by any. Leaving it ends the epoch for the workers.
class RemoteGroup final : public Group {
 public:
  RemoteGroup(GroupInfo info, std::shared_ptr<Epoch> epoch, absl::Duration step_timeout);
  ~RemoteGroup() override;

  const GroupInfo& info() const override { return info_; }
  absl::StatusOr<std::vector<cluster::StepResult>> run(const cluster::Step& step) override;
  absl::StatusOr<std::vector<float>> logits(uint64_t step, int output) override;
  void abort() override;

 private:
  absl::StatusOr<std::vector<cluster::WorkerMessage>> exchange(cluster::CoordinatorMessage message);

  const GroupInfo info_;
  const std::shared_ptr<Epoch> epoch_;
  const absl::Duration step_timeout_;
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// The interface between the engine and the group in a simulation: the same as Cluster and Group in
// a server, but with events.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/cluster/group.h"

namespace lockstep::simulation {

class GroupListener {
 public:
  virtual ~GroupListener() = default;
  virtual void group_formed(const GroupInfo& info) = 0;
  // Called instead of results() or logits(), as in a server.
  virtual void group_lost(const absl::Status& why) = 0;
  virtual void results(std::vector<cluster::StepResult> results) = 0;
  virtual void logits(const std::vector<float>& logits) = 0;
};

class Workers {
 public:
  virtual ~Workers() = default;
  virtual void want_group(const GroupRequirements& requirements) = 0;
  virtual void note_demand(Demand demand) = 0;
  virtual void run_step(std::shared_ptr<const cluster::Step> step) = 0;
  virtual void fetch_logits(uint64_t step, int output) = 0;
  // The engine leaves the group.
  virtual void leave_group() = 0;
  // The same as Cluster::shutdown().
  virtual void shutdown() = 0;
  virtual bool healthy() const = 0;
  // True if the last group was lost only because some of its workers were asked to leave.
  virtual bool only_left() const = 0;
};

}  // namespace lockstep::simulation

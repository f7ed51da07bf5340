// SPDX-License-Identifier: Apache-2.0
// A group of workers without an engine, for commands that run steps themselves.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "coordinator/cluster/group.h"
#include "coordinator/service.h"
#include "tools/interrupt.h"

namespace lockstep {

class FormedGroup {
 public:
  // Waits until the group is formed, with a progress bar on a terminal. A signal ends the wait with
  // an error. `model` must outlive the group.
  static absl::StatusOr<FormedGroup> form(const Model& model, ServiceOptions options,
                                          Interrupt& interrupt);
  // Ends the group. Workers that end from now on do not count as lost, and nothing is logged.
  ~FormedGroup();
  FormedGroup(FormedGroup&&) = default;
  FormedGroup& operator=(FormedGroup&&) = delete;

  Group& operator*() const { return *group_; }
  Group* operator->() const { return group_.get(); }

 private:
  FormedGroup() = default;

  std::unique_ptr<ClusterHost> host_;
  std::unique_ptr<Group> group_;
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// What a device is given to do in steps of one shape, captured once and replayed: one call of the
// driver in place of hundreds.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/program.pb.h"
#include "worker/collectives/collective.h"
#include "worker/kernels/device.h"
#include "worker/padded_step.h"

namespace lockstep {

// Of one program and its weights. One thread at a time, between steps but for run(). The device
// outlives it.
class StepGraphs {
 public:
  StepGraphs(Device& device, const program::Program& program);

  // Operands have moved, or collectives are others: what was captured is void. A collective that
  // cannot be captured is told of in a log line, and no step is padded.
  void use(const StateRoom& room);
  void use(const Collective& collective);

  // See PaddedStep::take(). Null as well where nothing can be captured.
  StepView* pad(const StepView& step) { return usable() ? padded_.take(step) : nullptr; }

  // Queues a padded step, which `direct` would do call by call: of the step calls get what
  // `on_device` holds, by value. The first step of a shape goes that way, since what a driver or a
  // library does at a first use cannot be captured; the second is captured and replayed. Where the
  // device refuses, all goes the direct way from then on, with a log line. Errors are direct's.
  absl::Status run(const StepView& on_device, const std::function<absl::Status()>& direct);

 private:
  struct Shape {
    StepView step;
    std::unique_ptr<CapturedQueue> queue;  // From its second step on.
  };
  bool usable() const { return !refused_ && can_capture_; }
  void capture(Shape& shape, const std::function<absl::Status()>& direct);
  void give_up(const std::string& reason);

  Device& device_;
  const bool meets_;  // The program has collectives.
  PaddedStep padded_;
  bool can_capture_ = false;  // Once a collective is known.
  bool refused_ = false;
  std::vector<Shape> shapes_;
};

}  // namespace lockstep

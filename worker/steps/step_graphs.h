// SPDX-License-Identifier: Apache-2.0
// A device's work in steps of one shape, captured once and replayed: one call of the driver in
// place of hundreds.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/program.pb.h"
#include "worker/collectives/collective.h"
#include "worker/kernels/device.h"
#include "worker/steps/padded_step.h"

namespace lockstep {

// For one program and its weights, and for one thread at a time. Functions other than run() are
// called between steps. Device and program outlive it.
class StepGraphs {
 public:
  StepGraphs(Device& device, const program::Program& program);

  // The state has moved, or the collective has changed: earlier captures are dropped. From now on
  // steps are padded up to the largest number of rows with which all their collectives can be
  // captured. If there is no such number, no step is padded, and a log line says so.
  void use(const StateRoom& room);
  void use(const Collective& collective);

  // See PaddedStep::take(). The result does not depend on what this rank's device refuses. So all
  // ranks of a group pad a step to the same number of rows, whether or not they replay it.
  StepView* pad(const StepView& step) { return padded_.take(step); }

  // Queues a padded step, which `direct` would run call by call. The contents of `on_device` are
  // its shape: calls get them by value. The first step of a shape is run directly, since what a
  // driver or a library does at a first use cannot be captured; the second is captured and
  // replayed. If the device refuses, this and all later steps are run directly, with a log line.
  // Errors are those of `direct`.
  absl::Status run(const StepView& on_device, const std::function<absl::Status()>& direct);

 private:
  struct Shape {
    StepView step;
    std::unique_ptr<CapturedQueue> queue;  // Set by the shape's second step.
  };
  void capture(Shape& shape, const std::function<absl::Status()>& direct);
  void give_up(const std::string& reason);

  Device& device_;
  const program::Program& program_;
  PaddedStep padded_;
  bool refused_ = false;
  std::vector<Shape> shapes_;
};

}  // namespace lockstep

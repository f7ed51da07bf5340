// SPDX-License-Identifier: Apache-2.0
// A step on a device. The executor's StepView has arrays in host memory. A device's kernels get a
// StepView whose arrays are all in device memory, copies of the requests (OutputSpec) included.
// Everything is in one buffer: one copy from staging memory brings it in before the first kernel.
// After the last kernel, copies bring requests and answers back to the host.
//
//   DeviceStep on_device(device, sizes);          // When the program is loaded.
//   StepView* view = on_device.take(step);        // Queued before the kernels.
//   args.step = view; ...                         // For every kernel's call.
//   const char* failure = on_device.give(step);   // Waits; fills the host's requests.
//
// The arrays of a StepView itself are first in the buffer. So their places depend only on the
// numbers of rows, sequences and outputs, as long as the buffer need not grow.
//
// Attributes do not belong to the step: kv_head_of and inv_freq must be copied once, when a program
// is bound. kernel_cost() reads the host's StepView.
#pragma once

#include <cstddef>
#include <cstdint>

#include "worker/kernels/device.h"
#include "worker/kernels/kernel.h"

namespace lockstep {

// Lengths of arrays that a StepView only points to.
struct StepSizes {
  int64_t page_tokens = 0;    // Positions per page.
  int64_t vocab = 0;          // All ranks' ids: the bits of a mask.
  int64_t slice_columns = 0;  // This rank's ids.
  int64_t hidden = 0;         // Columns of an embedding.
};

// For one thread at a time. Its buffer grows to the largest step so far.
class DeviceStep {
 public:
  DeviceStep(Device& device, const StepSizes& sizes) : device_(device), sizes_(sizes) {}
  DeviceStep(const DeviceStep&) = delete;
  DeviceStep& operator=(const DeviceStep&) = delete;

  // Valid until the next take(); null if the device has no room for it.
  StepView* take(const StepView& step);
  // Called after the kernels are queued, with the step that take() got. Waits, and writes the
  // answers to its requests. Null, or the error: the requests are then unchanged.
  const char* give(StepView& step);

 private:
  // The same place in staging memory and on the device. `here` is null while sizes are summed.
  template <typename T>
  struct Place {
    T* here;
    T* there;
  };
  template <typename T>
  Place<T> room(int64_t count);
  template <typename T>
  T* put(const T* from, int64_t count);
  bool reserve(int64_t bytes);
  void lay_out(const StepView& step);
  // Copies to `here`, unless it is null.
  void lay_out_sequences(const StepView& step, StepSequence* here);
  void lay_out_requests(const StepView& step, OutputSpec* here);
  OutputSpec with_inputs(const OutputSpec& request);
  void add_answers(OutputSpec& request);
  // The place of an answer in staging memory.
  template <typename T>
  const T* returned(const T* there) const;

  Device& device_;
  const StepSizes sizes_;
  StagingMemory staging_memory_;
  DeviceMemory device_memory_;
  int64_t bytes_ = 0;
  int64_t used_ = 0;
  int64_t requests_begin_ = 0;
  int64_t answers_begin_ = 0;
  StepView view_;
};

}  // namespace lockstep

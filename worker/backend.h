// SPDX-License-Identifier: Apache-2.0
// What a rank computes on: a device, and the table of kernels whose operands lie there.
#pragma once

#include <memory>
#include <span>

#include "base/isa.h"
#include "worker/kernels/device.h"
#include "worker/kernels/kernel.h"

namespace lockstep {

struct Backend {
  std::unique_ptr<Device> device;
  std::span<const KernelEntry> kernels;
  Isa isa = Isa::kPortable;  // The best that kernels may ask for.
  // What the kernels' bits are promised to be: the program says which it wants.
  const char* numeric_class = "f32.v1";
  // Share of the memory beside weights and buffers that KV pages take.
  double memory_fraction = 0.8;
};

// This processor.
Backend cpu_backend();

}  // namespace lockstep

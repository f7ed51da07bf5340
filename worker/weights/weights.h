// SPDX-License-Identifier: Apache-2.0
// This rank's weights: planned, then read and packed once, then read by kernels every step.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/threads/parallel.h"
#include "checkpoint/weight_source.h"
#include "proto/program.pb.h"
#include "worker/host/memory.h"
#include "worker/kernel_choice/bindings.h"
#include "worker/kernels/kernel.h"
#include "worker/progress.h"
#include "worker/weights/mapped_weight.h"
#include "worker/weights/packed_cache.h"

namespace lockstep {

struct RetainedWeights;  // retained_weights.h

// The place of each weight in memory, and the memory for loading. Sums that would overflow are
// INT64_MAX.
struct WeightPlan {
  std::vector<int64_t> offsets;  // One per weight.
  int64_t bytes = 0;             // The bytes of all weights.
  int64_t block_bytes = 0;       // The largest block that a thread reads, before packing.
  int64_t packed_bytes = 0;      // The largest packed block.
};
WeightPlan plan_weights(const program::Program& program, const Bindings& bindings);

struct LoadOptions {
  Progress* progress = nullptr;  // Counts the bytes loaded; may be null.
  const std::atomic<bool>* cancelled = nullptr;
  const PackedCache* cache = nullptr;  // The file of packed weights, which is read or written.
  // Weights from the same source in a CPU's memory: panels that are needed again are copied, then
  // all are freed. Null, or a pointer to null: there are none.
  std::unique_ptr<RetainedWeights>* retained = nullptr;
  bool for_trial = false;  // The bytes are not reported to users.
};

class Weights {
 public:
  // Checks every weight with the source before memory is allocated for any. Copies retained panels.
  // Reads the others from the cache or, without a good file there, from the source: in blocks of
  // rows, on all threads. The first error stops all threads; kCancelled: `cancelled` became true.
  // On a GPU each thread has two staging buffers of plan.packed_bytes: it reads and packs into one
  // while the other is copied.
  static absl::StatusOr<Weights> load(const program::Program& program, const Bindings& bindings,
                                      const WeightPlan& plan, const WeightSource& source,
                                      Device& device, Parallel& parallel,
                                      const LoadOptions& options);

  // Unmaps the files: a program that reuses these weights maps them itself.
  void drop_files() { files_.clear(); }

  // The weight as kernels take it. Valid as long as the Weights are, moves included.
  const TensorView& view(int weight) const { return views_[weight]; }
  int64_t bytes() const { return memory_.bytes(); }
  // Uses this mapped weight in place of one that was not loaded.
  void take(MappedWeight weight);
  // The bytes of all weights as they are in memory; only for a CPU.
  std::span<const std::byte> contents() const {
    return {memory_.data(), static_cast<size_t>(memory_.bytes())};
  }

 private:
  DeviceMemory memory_;
  std::vector<MappedFile> files_;
  std::vector<TensorView> views_;
};

}  // namespace lockstep

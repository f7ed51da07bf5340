// SPDX-License-Identifier: Apache-2.0
// How ranks exchange values between layers. All ranks of a group call the same collectives in the
// same order. Only the executor's thread calls them, except for abort().
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/threads/parallel.h"

namespace lockstep {

struct KernelArgs;  // worker/kernels/kernel.h

// The arguments of all_gather: every rank gives [rows, its own columns] and gets [rows, total], the
// columns of all ranks side by side. Rank r's columns are [boundaries[r], boundaries[r + 1]); this
// range may be empty.
struct GatherArgs {
  const void* in = nullptr;  // This rank's columns. They may be in `out` already, at their place.
  int64_t in_stride = 0;     // In elements.
  void* out = nullptr;
  int64_t out_stride = 0;
  int64_t rows = 0;
  std::span<const int64_t> boundaries;  // [ranks + 1]
  int64_t element_bytes = 0;
};

// The maximum number of columns that a rank has.
inline int64_t widest_part(std::span<const int64_t> boundaries) {
  int64_t widest = 0;
  for (size_t r = 0; r + 1 < boundaries.size(); ++r) {
    widest = std::max(widest, boundaries[r + 1] - boundaries[r]);
  }
  return widest;
}

class Collective {
 public:
  virtual ~Collective() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  // data[i] = the sum over ranks of data[i], with the same bits on every rank. Ranks or devices
  // that share memory add in rank order 0, 1, 2, ... Under the reduce strategy, this order makes
  // bits the same at every start. NCCL has an order of its own, which is always the same for the
  // same ranks and sizes. If all addends but one are -0.0, the order does not matter. `data` has
  // rows of `cols` floats, `stride` floats apart.
  virtual absl::Status all_reduce(float* data, int64_t rows, int64_t cols, int64_t stride) = 0;
  // Does the all_reduce of args.in[1] and then the kernel add_norm with `args`, in one operation
  // and with the same bits. If the two cannot be combined here, does nothing and returns false on
  // all ranks.
  virtual absl::StatusOr<bool> reduce_add_norm(const KernelArgs& /*args*/) { return false; }
  // If `out` is in shared(), at the same offset on every rank, a rank moves only its own part
  // there, or nothing if that part is there already. The call ends when all ranks have entered it.
  virtual absl::Status all_gather(const GatherArgs& args) = 0;
  // Memory that all ranks see. Between two collectives no rank may write what another still reads.
  // Empty by default: every rank then gathers into its own memory.
  virtual std::span<std::byte> shared() { return {}; }
  // If operands are on a device, the calls above may queue their work and return before it is done.
  // finish() waits for all queued work, kernels included. It is called once per step, after the
  // last collective.
  virtual absl::Status finish() { return absl::OkStatus(); }
  // True if all_reduce, and all_gather with at most `gather_bytes` per rank, only queue work, which
  // is always the same for the same arguments. A device may then capture the work, and replay it
  // without these calls. All ranks return the same.
  virtual bool can_be_captured(int64_t /*gather_bytes*/) const { return false; }

  // Ends all running and later collectives with kAborted, on all ranks that can be reached. Any
  // thread may call it; it never blocks.
  virtual void abort() = 0;

  // The nanoseconds that this rank has spent since the start: in waiting for its peers (wait_ns),
  // and in moving bytes itself (transfer_ns).
  struct Waited {
    int64_t wait_ns = 0;
    int64_t transfer_ns = 0;
  };
  virtual Waited waited() const = 0;
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// How ranks exchange values between layers: one of the seams that are virtual. All ranks of a group
// call the same collectives in the same order; the executor's thread is the only caller but for
// abort().
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

// Columns of all ranks side by side. Every rank gives [rows, columns of its own] and gets all of
// [rows, total]. Rank r's columns are [boundaries[r], boundaries[r + 1]); they may be none.
struct GatherArgs {
  const void* in = nullptr;  // This rank's columns. May be in `out` at their place already.
  int64_t in_stride = 0;     // Elements.
  void* out = nullptr;
  int64_t out_stride = 0;
  int64_t rows = 0;
  std::span<const int64_t> boundaries;  // [ranks + 1]
  int64_t element_bytes = 0;
};

// The most columns that a rank has.
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

  // data[i] = the sum over ranks of data[i], with the same bits on every rank. Added in rank order
  // 0, 1, 2, ... where ranks or their devices share memory, which the reduce strategy's promise of
  // bits rests on; NCCL adds in an order of its own, the same every time for the same ranks and
  // sizes. Where at most one addend is not -0.0 no order matters. Rows of `cols` floats, `stride`
  // apart.
  virtual absl::Status all_reduce(float* data, int64_t rows, int64_t cols, int64_t stride) = 0;
  // all_reduce of in[1] and then the kernel add_norm, whose arguments these are, in one go and with
  // the same bits. False: nothing was done, since the two do not go together here; the same on all
  // ranks.
  virtual absl::StatusOr<bool> reduce_add_norm(const KernelArgs& /*args*/) { return false; }
  // Where `out` is in shared(), at the same place on every rank, there is nothing to move but
  // parts that are elsewhere: the call is over when all ranks have come.
  virtual absl::Status all_gather(const GatherArgs& args) = 0;
  // Memory that all ranks see. Between two collectives nobody may write what another still reads.
  // None by default: every rank then gathers in memory of its own.
  virtual std::span<std::byte> shared() { return {}; }
  // Operands on a device may only be queued by the calls above: this waits for all that is
  // queued there, kernels included. Once a step, after its last call.
  virtual absl::Status finish() { return absl::OkStatus(); }
  // all_reduce, and all_gather to which no rank gives more bytes than that, do nothing but queue,
  // the same for the same arguments: a device may capture them and replay them without calls. The
  // same on all ranks.
  virtual bool can_be_captured(int64_t /*gather_bytes*/) const { return false; }

  // Ends every collective under way or to come, on all ranks that can be reached, with kAborted.
  // From any thread, and from a signal handler's thread; never blocks.
  virtual void abort() = 0;

  // Nanoseconds that this rank has waited for its peers, and has moved bytes itself, since the
  // start.
  struct Waited {
    int64_t wait_ns = 0;
    int64_t transfer_ns = 0;
  };
  virtual Waited waited() const = 0;
};

}  // namespace lockstep

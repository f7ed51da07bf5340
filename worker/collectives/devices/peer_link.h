// SPDX-License-Identifier: Apache-2.0
// Ranks of one host whose devices reach each other's memory (peer_memory.h): found out together,
// tried out, and ended by whoever comes first of a deadline and abort().
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/collectives/collective.h"
#include "worker/kernels/device.h"
#include "worker/kernels/peer_memory.h"

namespace lockstep {

struct PeerLinkArgs {
  std::chrono::nanoseconds timeout{};            // Of every wait for a peer; trying out has half.
  const std::atomic<bool>* cancelled = nullptr;  // Ends the trying out once it is true.
  std::string off;    // Not empty: this rank wants none, for this reason.
  bool pads = false;  // This rank pads steps that may be captured (Backend::graphs).
};

class PeerLink {
 public:
  // Null where one of them cannot: all ranks then have the same *problem, "" where none of their
  // devices could ever. `met`'s ranks are 2 to kMaxPeers of one host with a device each. Errors are
  // `met`'s, or kAborted once `cancelled` is true. The device outlives the link.
  static absl::StatusOr<std::unique_ptr<PeerLink>> connect(Collective& met, Device& device,
                                                           const PeerLinkArgs& args,
                                                           std::string* problem);
  // Waits for the device: by then nothing else may be queued there that might never end.
  ~PeerLink();
  PeerLink(const PeerLink&) = delete;
  PeerLink& operator=(const PeerLink&) = delete;

  // All ranks pad steps: operands are of the same rows on each.
  bool all_pad() const { return all_pad_; }

  // Queued, as PeerAccess says. After an error, also one that finish() found, all calls fail.
  absl::Status all_reduce(const PeerSum& sum);
  absl::Status all_gather(const PeerGather& gather);
  absl::Status reduce_add_norm(const KernelArgs& args);
  // Waits for all that is queued. kAborted, kDeadlineExceeded: the values are undefined.
  absl::Status finish();
  // Any thread; never blocks. Kernels that wait leave within a moment.
  void abort();

 private:
  PeerLink(Collective& met, Device& device, const PeerLinkArgs& args);

  absl::Status open(const std::vector<PeerHandle>& handles, uint64_t first);
  absl::Status try_out();
  absl::Status try_sum(std::byte* on_device, float* here, int64_t numbers);
  absl::Status queued(const char* failure);
  absl::Status state() const;

  Device& device_;
  PeerAccess* const access_;
  const std::chrono::nanoseconds timeout_;
  const std::atomic<bool>* cancelled_;
  PeerGroup group_;
  std::vector<PeerHandle> handles_;
  bool all_pad_ = false;
  StagingMemory ended_;  // PeerGroup's word.
  absl::Status failure_;
};

}  // namespace lockstep

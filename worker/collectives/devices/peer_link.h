// SPDX-License-Identifier: Apache-2.0
// Ranks of one host whose devices reach each other's memory (peer_memory.h). All ranks check
// together, by a trial, that the link works. The link ends at a deadline or by abort(), whichever
// is first.
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
  std::chrono::nanoseconds timeout{};            // Limits a wait for a peer; half in the trial.
  const std::atomic<bool>* cancelled = nullptr;  // If it turns true, the trial ends.
  std::string off;    // If not empty, the reason why this rank does not use the link.
  bool pads = false;  // This rank pads steps that may be captured (Backend::graphs).
};

class PeerLink {
 public:
  // Null if one of the ranks cannot use the link. All ranks then get the same *problem: "" if none
  // of their devices can reach other devices' memory. `met` has 2 to kMaxPeers ranks of one host
  // with a device each. An error comes from `met`, or is kAborted after `cancelled` turned true.
  // The device outlives the link.
  static absl::StatusOr<std::unique_ptr<PeerLink>> connect(Collective& met, Device& device,
                                                           const PeerLinkArgs& args,
                                                           std::string* problem);
  // Waits for the device, so all work that is still queued there must be able to end.
  ~PeerLink();
  PeerLink(const PeerLink&) = delete;
  PeerLink& operator=(const PeerLink&) = delete;

  // Whether all ranks pad steps. If so, operands have the same number of rows on each rank.
  bool all_pad() const { return all_pad_; }

  // Queue work, as PeerAccess describes. After any error, including one from finish(), all calls
  // fail.
  absl::Status all_reduce(const PeerSum& sum);
  absl::Status all_gather(const PeerGather& gather);
  absl::Status reduce_add_norm(const KernelArgs& args);
  // Waits for all queued work. After kAborted or kDeadlineExceeded the values are undefined.
  absl::Status finish();
  // Callable from any thread; never blocks. Kernels that wait for peers end soon after.
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
  StagingMemory ended_;  // The word PeerGroup::ended.
  absl::Status failure_;
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// The access of devices without a GPU to each other's memory (worker/kernels/peer_memory.h), in
// this process or in another process of this user. The shim's kernels do the exchanges. Does not
// use absl.
#pragma once

#include <functional>
#include <vector>

#include "worker/kernels/peer_memory.h"

namespace lockstep {

class ShimPeers : public PeerAccess {
 public:
  ~ShimPeers() override;
  PeerMemory* own(PeerHandle* handle, std::string* problem) override;
  PeerMemory* open(const PeerHandle& peer, std::string* problem) override;
  void close(const PeerHandle& peer, PeerMemory* memory) override;
  const char* all_reduce(const PeerGroup& group, const PeerSum& sum) override;
  const char* all_gather(const PeerGroup& group, const PeerGather& gather) override;
  const char* reduce_add_norm(const PeerGroup& group, const KernelArgs& args) override;

 protected:
  struct Exchange {
    const uint32_t* ended;              // PeerGroup::ended.
    std::vector<const void*> operands;  // The first address of each operand, on the device.
    std::function<void()> run;
  };
  // Queues an exchange, to run in the order of the device's queue.
  virtual void queue_exchange(Exchange exchange) = 0;
  bool is_own(const void* memory) const { return memory_ != nullptr && memory == memory_; }

 private:
  int file_ = -1;
  PeerMemory* memory_ = nullptr;
};

}  // namespace lockstep

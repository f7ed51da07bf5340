// SPDX-License-Identifier: Apache-2.0
// A rank becomes part of a communicator: a call of NCCL that waits for all ranks, for ever if need
// be, and cannot be aborted. So a thread of its own makes it, which may be left to itself.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

#include "worker/collectives/devices/nccl_library.h"
#include "worker/kernels/device.h"

namespace lockstep {

class NcclJoining {
 public:
  // Begins. Returns once the device is not needed any more.
  static std::shared_ptr<NcclJoining> start(const Nccl& nccl, int ranks, const Nccl::Id& id,
                                            int rank, Device& device);

  // For a moment at most. True: it has ended, with this result.
  bool wait(int* result, Nccl::Comm* comm);
  // Nobody waits any more: a communicator that comes of it is aborted.
  void leave();

 private:
  template <typename Change>
  void set(const Change& change);
  void run(int ranks, const Nccl::Id& id, int rank, Device& device);

  Nccl nccl_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool began_ = false, ended_ = false, left_ = false;
  int result_ = 0;
  Nccl::Comm comm_ = nullptr;
};

// Whether a thread of this process is still in a joining that was left: it does not try again.
bool nccl_is_stuck();

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// Joins a rank to a communicator. NCCL's call waits for all ranks, possibly for ever, and cannot be
// aborted. So a separate thread makes the call, and may be abandoned.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

#include "worker/collectives/devices/nccl_library.h"
#include "worker/kernels/device.h"

namespace lockstep {

class NcclJoining {
 public:
  // Starts the thread. Returns when the thread does not need `device` any more.
  static std::shared_ptr<NcclJoining> start(const Nccl& nccl, int ranks, const Nccl::Id& id,
                                            int rank, Device& device);

  // Waits 5 ms at most. True: the call has ended, with this result.
  bool wait(int* result, Nccl::Comm* comm);
  // Abandons the call. If the call makes a communicator later, that communicator is aborted.
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

// True while a thread of this process is in an abandoned call. Meanwhile the process must not join
// again.
bool nccl_is_stuck();

}  // namespace lockstep

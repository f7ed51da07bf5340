// SPDX-License-Identifier: Apache-2.0
#include "worker/collectives/devices/nccl_joining.h"

#include <atomic>
#include <chrono>
#include <thread>

namespace lockstep {
namespace {

constexpr std::chrono::milliseconds kMoment{5};

std::atomic<int> left_joinings{0};

}  // namespace

bool nccl_is_stuck() { return left_joinings.load() > 0; }

std::shared_ptr<NcclJoining> NcclJoining::start(const Nccl& nccl, int ranks, const Nccl::Id& id,
                                                int rank, Device& device) {
  auto joining = std::make_shared<NcclJoining>();
  joining->nccl_ = nccl;
  std::thread([=, &device] { joining->run(ranks, id, rank, device); }).detach();
  std::unique_lock lock(joining->mutex_);
  joining->changed_.wait(lock, [&] { return joining->began_; });
  return joining;
}

template <typename Change>
void NcclJoining::set(const Change& change) {
  const std::lock_guard lock(mutex_);
  change();
  changed_.notify_all();
}

void NcclJoining::run(int ranks, const Nccl::Id& id, int rank, Device& device) {
  device.use_from_this_thread();  // NCCL takes the calling thread's GPU.
  set([this] { began_ = true; });
  Nccl::Config config;
  Nccl::Comm comm = nullptr;
  const int result = nccl_.init(&comm, ranks, id, rank, &config);
  set([&] {
    ended_ = true;
    result_ = result;
    comm_ = result == 0 ? comm : nullptr;
    if (!left_) return;
    if (comm_ != nullptr) nccl_.abort(comm_);
    --left_joinings;
  });
}

bool NcclJoining::wait(int* result, Nccl::Comm* comm) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, kMoment, [this] { return ended_; })) return false;
  *result = result_;
  *comm = comm_;
  return true;
}

void NcclJoining::leave() {
  const std::lock_guard lock(mutex_);
  left_ = true;
  if (!ended_) {
    ++left_joinings;
  } else if (comm_ != nullptr) {
    nccl_.abort(comm_);
  }
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// GPUs reach each other's memory by CUDA's handles between processes, and within one process by
// address. A refusal by the driver concerns that call only: its error is cleared, so that
// synchronize() does not report it.
#include "worker/kernels/cuda/peers/peer_access.h"

#include <cuda_runtime.h>

#include <cstring>
#include <random>

namespace lockstep::cuda {

const char* all_reduce(const PeerGroup& group, const PeerSum& sum, void* queue);
const char* all_gather(const PeerGroup& group, const PeerGather& gather, void* queue);
const char* reduce_add_norm(const PeerGroup& group, const KernelArgs& args);

namespace {

uint64_t this_process() {
  static const uint64_t number = [] {
    std::random_device random;
    return uint64_t{random()} << 32 | random();
  }();
  return number;
}

class CudaPeerAccess final : public PeerAccess {
 public:
  CudaPeerAccess(Device& device, int index) : device_(device), index_(index) {}

  PeerMemory* own(PeerHandle* handle, std::string* problem) override {
    if (memory_.data() == nullptr) memory_ = DeviceMemory(device_, kPeerMemoryBytes);
    if (memory_.data() == nullptr) {
      *problem = device_.name() + " has no room left for memory that GPUs share";
      return nullptr;
    }
    *handle = {.process = this_process(), .address = memory_.data(), .device = index_};
    cudaIpcMemHandle_t driver;
    static_assert(sizeof(driver) <= sizeof(handle->driver));
    if (!works(cudaIpcGetMemHandle(&driver, memory_.data()), problem)) return nullptr;
    std::memcpy(handle->driver, &driver, sizeof(driver));
    return reinterpret_cast<PeerMemory*>(memory_.data());
  }

  PeerMemory* open(const PeerHandle& peer, std::string* problem) override {
    device_.use_from_this_thread();
    if (peer.process == this_process()) {
      if (!reaches(peer.device, problem)) return nullptr;
      return static_cast<PeerMemory*>(peer.address);
    }
    cudaIpcMemHandle_t driver;
    std::memcpy(&driver, peer.driver, sizeof(driver));
    void* memory = nullptr;
    const cudaError_t result =
        cudaIpcOpenMemHandle(&memory, driver, cudaIpcMemLazyEnablePeerAccess);
    return works(result, problem) ? static_cast<PeerMemory*>(memory) : nullptr;
  }

  void close(const PeerHandle& peer, PeerMemory* memory) override {
    if (peer.process == this_process()) return;
    device_.use_from_this_thread();
    std::string problem;  // An error means that the peer has ended: ignored.
    works(cudaIpcCloseMemHandle(memory), &problem);
  }

  const char* all_reduce(const PeerGroup& group, const PeerSum& sum) override {
    return cuda::all_reduce(group, sum, device_.queue());
  }
  const char* all_gather(const PeerGroup& group, const PeerGather& gather) override {
    return cuda::all_gather(group, gather, device_.queue());
  }
  const char* reduce_add_norm(const PeerGroup& group, const KernelArgs& args) override {
    return cuda::reduce_add_norm(group, args);
  }

 private:
  static bool works(cudaError_t result, std::string* problem) {
    if (result == cudaSuccess) return true;
    static_cast<void>(cudaGetLastError());
    *problem = std::string("CUDA: ") + cudaGetErrorString(result);
    return false;
  }

  // Enables access to the memory of another GPU of this process.
  bool reaches(int other, std::string* problem) const {
    if (other == index_) return true;
    int can = 0;
    if (!works(cudaDeviceCanAccessPeer(&can, index_, other), problem)) return false;
    if (can == 0) {
      *problem = "GPU " + std::to_string(index_) + " cannot reach the memory of GPU " +
                 std::to_string(other);
      return false;
    }
    const cudaError_t result = cudaDeviceEnablePeerAccess(other, 0);
    if (result != cudaErrorPeerAccessAlreadyEnabled) return works(result, problem);
    static_cast<void>(cudaGetLastError());
    return true;
  }

  Device& device_;
  const int index_;
  DeviceMemory memory_;
};

}  // namespace

std::unique_ptr<PeerAccess> peer_access(Device& device, int index) {
  return std::make_unique<CudaPeerAccess>(device, index);
}

}  // namespace lockstep::cuda

// SPDX-License-Identifier: Apache-2.0
// One GPU and one stream. The first error stays: after it every call does nothing.
#include "worker/kernels/device.h"

#include <cuda_runtime.h>

namespace lockstep {
namespace {

class CudaDevice final : public Device {
 public:
  CudaDevice(int index, std::string name) : index_(index), name_(std::move(name)) {
    use_from_this_thread();
    note(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  ~CudaDevice() override {
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
  }

  std::string name() const override { return name_; }
  int64_t total_bytes() const override { return memory().second; }
  int64_t free_bytes() const override { return memory().first; }

  std::byte* allocate(int64_t bytes) override {
    void* memory = nullptr;
    // Too little memory is an answer, not a fault: it must not be found by synchronize().
    if (cudaMalloc(&memory, static_cast<size_t>(bytes > 0 ? bytes : 1)) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      return nullptr;
    }
    return static_cast<std::byte*>(memory);
  }
  void release(std::byte* memory) override { note(cudaFree(memory)); }
  std::byte* allocate_staging(int64_t bytes) override {
    void* memory = nullptr;
    if (cudaMallocHost(&memory, static_cast<size_t>(bytes > 0 ? bytes : 1)) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      return nullptr;
    }
    return static_cast<std::byte*>(memory);
  }
  void release_staging(std::byte* memory) override { note(cudaFreeHost(memory)); }

  void copy_in(std::byte* to, const void* from, int64_t bytes) override {
    copy(to, from, bytes, cudaMemcpyHostToDevice);
  }
  void copy_out(void* to, const std::byte* from, int64_t bytes) override {
    copy(to, from, bytes, cudaMemcpyDeviceToHost);
  }
  void clear(std::byte* memory, int64_t bytes) override {
    if (bytes > 0) note(cudaMemsetAsync(memory, 0, static_cast<size_t>(bytes), stream_));
  }

  void* queue() const override { return stream_; }
  const char* synchronize() override {
    note(cudaStreamSynchronize(stream_));
    note(cudaGetLastError());  // A launch that was refused.
    return error_ == cudaSuccess ? nullptr : cudaGetErrorString(error_);
  }
  void use_from_this_thread() override { note(cudaSetDevice(index_)); }

 private:
  void note(cudaError_t error) {
    if (error_ == cudaSuccess) error_ = error;
  }
  void copy(void* to, const void* from, int64_t bytes, cudaMemcpyKind kind) {
    if (bytes > 0) note(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), kind, stream_));
  }
  // Free and total bytes.
  static std::pair<int64_t, int64_t> memory() {
    size_t free = 0, total = 0;
    if (cudaMemGetInfo(&free, &total) != cudaSuccess) return {0, 0};
    return {static_cast<int64_t>(free), static_cast<int64_t>(total)};
  }

  const int index_;
  const std::string name_;
  cudaStream_t stream_ = nullptr;
  cudaError_t error_ = cudaSuccess;
};

}  // namespace

int cuda_device_count(std::string* problem) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    *problem = std::string("no GPU can be used: ") + cudaGetErrorString(error);
    return 0;
  }
  if (count == 0) *problem = "no GPU can be used: CUDA finds none; see CUDA_VISIBLE_DEVICES";
  return count;
}

std::unique_ptr<Device> open_cuda_device(int index, std::string* problem) {
  const int count = cuda_device_count(problem);
  if (count == 0) return nullptr;
  cudaDeviceProp properties{};
  if (index < 0 || index >= count) {
    *problem = "GPU " + std::to_string(index) + ": want a number below " + std::to_string(count);
    return nullptr;
  }
  cudaError_t error = cudaGetDeviceProperties(&properties, index);
  if (error == cudaSuccess && properties.major < 8) {
    *problem = std::string(properties.name) + ": want compute capability 8.0 or more, found " +
               std::to_string(properties.major) + "." + std::to_string(properties.minor);
    return nullptr;
  }
  auto device = std::make_unique<CudaDevice>(index, properties.name);
  const char* failure = device->synchronize();
  if (error == cudaSuccess && failure == nullptr) return device;
  *problem = "GPU " + std::to_string(index) + ": " +
             (failure != nullptr ? failure : cudaGetErrorString(error));
  return nullptr;
}

}  // namespace lockstep

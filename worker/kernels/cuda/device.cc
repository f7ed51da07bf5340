// SPDX-License-Identifier: Apache-2.0
// One GPU and one stream. The first error is kept. Errors of a capture are not kept, since a failed
// capture has done nothing.
#include "worker/kernels/device.h"

#include <cuda_runtime.h>

#include <array>
#include <atomic>

#include "worker/kernels/cuda/cublas/cublas_lt.h"
#include "worker/kernels/cuda/peers/peer_access.h"

namespace lockstep {
namespace cuda {

const CublasLt* cublas_lt();
const char* copy_each(std::span<const RowCopy> copies, void* queue);

}  // namespace cuda

namespace {

// The text of a number like 13000.
std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// Events for marks: a mark reuses the event of the kEvents-th mark before it. A thread that still
// waits for the older mark then waits for the newer one. That is correct, since the newer mark is
// reached later.
constexpr int64_t kEvents = 64;

class CudaGraph final : public CapturedQueue {
 public:
  CudaGraph(cudaGraphExec_t graph, cudaStream_t stream, int device)
      : graph_(graph), stream_(stream), device_(device) {}
  ~CudaGraph() override {
    static_cast<void>(cudaSetDevice(device_));
    static_cast<void>(cudaGraphExecDestroy(graph_));
  }

  const char* replay() override {
    const cudaError_t error = cudaGraphLaunch(graph_, stream_);
    if (error == cudaSuccess) return nullptr;
    static_cast<void>(cudaGetLastError());  // Clears the error; a failed device reports it again.
    return cudaGetErrorString(error);
  }

 private:
  const cudaGraphExec_t graph_;
  const cudaStream_t stream_;
  const int device_;
};

class CudaDevice final : public Device {
 public:
  CudaDevice(int index, CudaDeviceInfo info) : index_(index), info_(std::move(info)) {
    use_from_this_thread();
    note(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    for (cudaEvent_t& event : events_) {
      note(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync));
    }
  }
  ~CudaDevice() override {
    use_from_this_thread();
    cudaStreamSynchronize(stream_);
    peers_.reset();
    for (cudaEvent_t event : events_) {
      if (event != nullptr) cudaEventDestroy(event);
    }
    cudaStreamDestroy(stream_);
  }

  std::string name() const override { return info_.name; }
  std::string address() const override { return info_.address; }
  // cuBLASLt's choices depend on the chip, its number of multiprocessors and the library's version.
  std::string kind() const override {
    const cuda::CublasLt* const library = cuda::cublas_lt();
    return "sm_" + std::to_string(info_.major) + std::to_string(info_.minor) + "x" +
           std::to_string(info_.processors) + "." +
           (library == nullptr ? "plain"
                               : "cublas_" + cuda::cublas_version_text(library->version()));
  }
  int64_t total_bytes() const override { return memory().second; }
  int64_t free_bytes() const override { return memory().first; }

  // Any thread may allocate and release memory. A thread that did not call use_from_this_thread()
  // would open the first GPU.
  std::byte* allocate(int64_t bytes) override {
    use_from_this_thread();
    void* memory = nullptr;
    // Too little memory is a result, not a failure: synchronize() must not report it.
    if (cudaMalloc(&memory, static_cast<size_t>(bytes > 0 ? bytes : 1)) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      return nullptr;
    }
    clear(static_cast<std::byte*>(memory), bytes);
    return static_cast<std::byte*>(memory);
  }
  void release(std::byte* memory, int64_t) override {
    use_from_this_thread();
    note(cudaFree(memory));
  }
  std::byte* allocate_staging(int64_t bytes) override {
    use_from_this_thread();
    void* memory = nullptr;
    if (cudaMallocHost(&memory, static_cast<size_t>(bytes > 0 ? bytes : 1)) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      return nullptr;
    }
    return static_cast<std::byte*>(memory);
  }
  void release_staging(std::byte* memory, int64_t) override {
    use_from_this_thread();
    note(cudaFreeHost(memory));
  }

  void copy_in(std::byte* to, const void* from, int64_t bytes) override {
    copy(to, from, bytes, cudaMemcpyHostToDevice);
  }
  void copy_out(void* to, const std::byte* from, int64_t bytes) override {
    copy(to, from, bytes, cudaMemcpyDeviceToHost);
  }
  void copy_rows(const RowCopy& copy) override {
    const auto bytes = static_cast<size_t>(copy.row_bytes), rows = static_cast<size_t>(copy.rows);
    if (bytes == 0 || rows == 0) return;
    // The driver finds out from an address whether it is in device memory or in staging memory.
    if (rows == 1) {
      note_queued(cudaMemcpyAsync(copy.to, copy.from, bytes, cudaMemcpyDefault, stream_));
    } else {
      note_queued(cudaMemcpy2DAsync(copy.to, static_cast<size_t>(copy.to_stride), copy.from,
                                    static_cast<size_t>(copy.from_stride), bytes, rows,
                                    cudaMemcpyDefault, stream_));
    }
  }
  void copy_each(std::span<const RowCopy> copies) override {
    // done() and synchronize() report a refused launch.
    static_cast<void>(cuda::copy_each(copies, stream_));
  }
  void clear(std::byte* memory, int64_t bytes) override {
    if (bytes > 0) note_queued(cudaMemsetAsync(memory, 0, static_cast<size_t>(bytes), stream_));
  }

  // Threads of other devices may allocate meanwhile: only this thread is restricted.
  const char* begin_capture() override {
    const cudaError_t error = cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal);
    if (error == cudaSuccess) {
      capturing_ = true;
      capture_error_ = cudaSuccess;
      return nullptr;
    }
    static_cast<void>(cudaGetLastError());
    return cudaGetErrorString(error);
  }
  std::unique_ptr<CapturedQueue> end_capture(std::string* problem) override {
    cudaGraph_t captured = nullptr;
    cudaGraphExec_t graph = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(stream_, &captured);
    cudaError_t error = capture_error_ != cudaSuccess ? capture_error_ : ended;
    capturing_ = false;
    if (error == cudaSuccess) error = cudaGraphInstantiateWithFlags(&graph, captured, 0);
    if (captured != nullptr) static_cast<void>(cudaGraphDestroy(captured));
    // A refused call has done nothing: synchronize() must not report it.
    const cudaError_t refused = cudaGetLastError();
    if (error == cudaSuccess) error = refused;
    if (error == cudaSuccess) return std::make_unique<CudaGraph>(graph, stream_, index_);
    if (graph != nullptr) static_cast<void>(cudaGraphExecDestroy(graph));
    *problem = cudaGetErrorString(error);
    return nullptr;
  }

  PeerAccess* peer_access() override { return peers_.get(); }

  void* queue() const override { return stream_; }
  bool done() override {
    note(cudaGetLastError());  // Reports a refused launch before the query hides it.
    const cudaError_t state = cudaStreamQuery(stream_);
    if (state == cudaErrorNotReady) {
      // The driver counts unfinished work as an error, which synchronize() must not report.
      static_cast<void>(cudaGetLastError());
      return false;
    }
    note(state);
    return true;
  }
  const char* synchronize() override {
    note(cudaStreamSynchronize(stream_));
    note(cudaGetLastError());  // Reports a refused launch, too.
    return text_of(error_);
  }
  int64_t mark() override {
    const int64_t mark = marks_++;
    note(cudaEventRecord(events_[static_cast<size_t>(mark % kEvents)], stream_));
    return mark;
  }
  const char* wait(int64_t mark) override {
    note(cudaEventSynchronize(events_[static_cast<size_t>(mark % kEvents)]));
    return text_of(error_);
  }
  void use_from_this_thread() override { note(cudaSetDevice(index_)); }

 private:
  void note(cudaError_t error) {
    cudaError_t none = cudaSuccess;
    error_.compare_exchange_strong(none, error);
  }
  // For calls that queue work. While a capture takes them, end_capture() reports their errors.
  void note_queued(cudaError_t error) {
    if (!capturing_) return note(error);
    if (capture_error_ == cudaSuccess) capture_error_ = error;
  }
  static const char* text_of(cudaError_t error) {
    return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
  }
  void copy(void* to, const void* from, int64_t bytes, cudaMemcpyKind kind) {
    if (bytes <= 0) return;
    note_queued(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), kind, stream_));
  }
  // Free and total bytes.
  std::pair<int64_t, int64_t> memory() const {
    size_t free = 0, total = 0;
    if (cudaSetDevice(index_) != cudaSuccess) return {0, 0};
    if (cudaMemGetInfo(&free, &total) != cudaSuccess) return {0, 0};
    return {static_cast<int64_t>(free), static_cast<int64_t>(total)};
  }

  const int index_;
  const CudaDeviceInfo info_;
  cudaStream_t stream_ = nullptr;
  std::array<cudaEvent_t, kEvents> events_{};
  std::unique_ptr<PeerAccess> peers_ = cuda::peer_access(*this, index_);
  int64_t marks_ = 0;
  bool capturing_ = false;
  cudaError_t capture_error_ = cudaSuccess;
  std::atomic<cudaError_t> error_{cudaSuccess};
};

}  // namespace

std::string cuda_driver_version() {
  int version = 0;
  if (cudaDriverGetVersion(&version) != cudaSuccess || version == 0) return "";
  return version_text(version);
}

std::vector<CudaDeviceInfo> cuda_devices(std::string* problem) {
  int count = 0, driver = 0;
  static_cast<void>(cudaDriverGetVersion(&driver));
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (driver == 0) {
    *problem = "no NVIDIA driver is loaded";
  } else if (driver / 1000 < CUDART_VERSION / 1000) {
    *problem = "the driver's CUDA version: found " + version_text(driver) + ", must be " +
               version_text(CUDART_VERSION / 1000 * 1000) + " or newer: update the driver";
  } else if (error != cudaSuccess) {
    *problem = std::string("no GPU can be used: ") + cudaGetErrorString(error);
  } else if (count == 0) {
    *problem = "no GPU can be used: CUDA finds none; see CUDA_VISIBLE_DEVICES";
  }
  if (error != cudaSuccess) count = 0;
  static_cast<void>(cudaGetLastError());
  std::vector<CudaDeviceInfo> devices;
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp properties{};
    char address[32] = {};
    if (cudaGetDeviceProperties(&properties, index) != cudaSuccess) continue;
    static_cast<void>(cudaDeviceGetPCIBusId(address, sizeof(address), index));
    devices.push_back({properties.name, address, static_cast<int64_t>(properties.totalGlobalMem),
                       properties.major, properties.minor, properties.multiProcessorCount});
  }
  return devices;
}

std::unique_ptr<Device> open_cuda_device(int index, std::string* problem) {
  const std::vector<CudaDeviceInfo> devices = cuda_devices(problem);
  if (devices.empty()) return nullptr;
  if (index < 0 || index >= static_cast<int>(devices.size())) {
    *problem = "GPU " + std::to_string(index) + ": must be a number below " +
               std::to_string(devices.size());
    return nullptr;
  }
  const CudaDeviceInfo& info = devices[static_cast<size_t>(index)];
  if (info.major < kMinCudaMajor) {
    *problem = info.name + ": compute capability must be " + std::to_string(kMinCudaMajor) +
               ".0 or more, found " + std::to_string(info.major) + "." + std::to_string(info.minor);
    return nullptr;
  }
  auto device = std::make_unique<CudaDevice>(index, info);
  const char* failure = device->synchronize();
  if (failure == nullptr) return device;
  *problem = "GPU " + std::to_string(index) + ": " + failure;
  return nullptr;
}

}  // namespace lockstep

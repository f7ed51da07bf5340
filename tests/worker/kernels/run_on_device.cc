// SPDX-License-Identifier: Apache-2.0
#include "tests/worker/kernels/run_on_device.h"

#include <algorithm>
#include <map>
#include <vector>

#include "base/check.h"
#include "operators/attribute_fields.h"
#include "tests/support/devices/kernel_pointers.h"
#include "worker/kernels/device_step.h"
#include "worker/kernels/find.h"

namespace lockstep {
namespace {

// Device memory with copies of pieces of host memory. Each piece has one copy, even if several
// operands use it.
class Mirror {
 public:
  explicit Mirror(Device& device) : device_(device) {}

  template <typename T>
  T* copy(T* host, int64_t bytes) {
    if (host == nullptr) return nullptr;
    Piece& piece = pieces_[host];
    LOCKSTEP_CHECK(piece.memory.data() == nullptr || bytes <= piece.bytes);
    if (piece.memory.data() == nullptr) {
      piece.memory = DeviceMemory(device_, bytes);
      piece.bytes = bytes;
      device_.copy_in(piece.memory.data(), host, bytes);
    }
    return reinterpret_cast<T*>(piece.memory.data());
  }
  void copy_back(void* host) {
    if (host != nullptr) copy_out(host, host);
  }
  std::vector<std::byte> contents(const void* host) {
    std::vector<std::byte> bytes(host == nullptr ? 0 : static_cast<size_t>(pieces_.at(host).bytes));
    if (host != nullptr) copy_out(host, bytes.data());
    return bytes;
  }

 private:
  void copy_out(const void* host, void* to) {
    const Piece& piece = pieces_.at(host);
    device_.copy_out(to, piece.memory.data(), piece.bytes);
  }

  struct Piece {
    DeviceMemory memory;
    int64_t bytes = 0;
  };
  Device& device_;
  std::map<const void*, Piece> pieces_;
};

int64_t bytes_of(const TensorView& view) {
  if (view.rows == 0 || view.cols == 0) return 0;
  return ((view.rows - 1) * view.stride + view.cols) * dtype_bytes(view.dtype);
}

// The index of the operand that is packed. It takes packed_bytes() for each of its matrices:
// expert_linear has one matrix per expert, other operators have one.
int weight_operand(Op op) {
  if (op == Op::kExpertLinear) return 2;
  return op == Op::kLinear || op == Op::kGatedLinear ? 1 : 0;
}

KernelArgs copy_in(const KernelEntry& kernel, const KernelArgs& host, Mirror& mirror) {
  KernelArgs args = host;
  for (int i = 0; i < kMaxInputs; ++i) {
    TensorView& view = args.in[i];
    int64_t bytes = bytes_of(view);
    if (kernel.packed_bytes != nullptr && i == weight_operand(kernel.op)) {
      const int64_t matrices = kernel.op == Op::kExpertLinear ? host.attrs.expert().experts : 1;
      bytes = matrices * kernel.packed_bytes(view.rows / matrices, view.cols);
    }
    view.data = mirror.copy(view.data, bytes);
  }
  for (TensorView& view : args.out) view.data = mirror.copy(view.data, bytes_of(view));
  args.state.data = mirror.copy(host.state.data, host.state.pages * host.state.page_bytes);
  visit_lists(args.attrs, [&](auto& list) {
    list.data = mirror.copy(list.data, list.size * static_cast<int64_t>(sizeof(list[0])));
  });
  return args;
}

StepSizes sizes_of(const KernelEntry& kernel, const KernelArgs& host) {
  const bool candidates = kernel.op == Op::kTopCandidates;
  const int64_t begin = candidates ? host.attrs.top_candidates().vocab_begin : 0;
  return {.page_tokens = std::max<int64_t>(1, host.state.page_tokens),
          .vocab = begin + host.in[0].cols,
          .slice_columns = host.in[0].cols,
          .hidden = host.out[0].cols};
}

// A kernel's call on the device, with copies of operands that are in the host's memory.
class DeviceCall {
 public:
  DeviceCall(TrackedDevice& device, const KernelEntry& kernel, const KernelArgs& host)
      : device_(device),
        kernel_(kernel),
        host_(host),
        mirror_(device),
        args_(copy_in(kernel, host, mirror_)),
        step_(device, sizes_of(kernel, host)),
        scratch_(device, scratch_bytes(kernel, host, 1)) {
    if (host.step != nullptr) args_.step = step_.take(*host.step);
    args_.scratch = scratch_.data();
    args_.queue = device.queue();
  }

  // Empty, or the error.
  std::string run() {
    if (std::string stray = host_pointer_of(device_, args_); !stray.empty()) return stray;
    const char* failure = kernel_.run(args_);
    return failure == nullptr ? "" : failure;
  }
  std::string copy_back() {
    for (const TensorView& view : host_.out) mirror_.copy_back(view.data);
    mirror_.copy_back(host_.state.data);
    const char* failure = host_.step != nullptr ? step_.give(*host_.step) : device_.synchronize();
    return failure == nullptr ? "" : failure;
  }
  // The bytes of everything that the kernel may write, except a step's answers.
  std::vector<std::byte> written() {
    std::vector<std::byte> all = mirror_.contents(host_.state.data);
    std::vector<std::vector<std::byte>> outputs;
    for (const TensorView& view : host_.out) outputs.push_back(mirror_.contents(view.data));
    LOCKSTEP_CHECK(device_.synchronize() == nullptr);
    for (const auto& output : outputs) all.insert(all.end(), output.begin(), output.end());
    return all;
  }

 private:
  TrackedDevice& device_;
  const KernelEntry& kernel_;
  const KernelArgs host_;
  Mirror mirror_;
  KernelArgs args_;
  DeviceStep step_;
  const DeviceMemory scratch_;
};

}  // namespace

std::string host_pointer_of(const TrackedDevice& device, const KernelArgs& args) {
  std::string stray;
  const auto visit = [&](const char* name, const void* address) {
    if (address == nullptr || device.has(address)) return;
    stray = std::string(name) + ": must be in the device's memory";
  };
  visit_pointers(args, visit);
  if (args.step == nullptr) return stray;
  visit_pointers(*args.step, visit);
  if (stray.empty() && device.readable()) visit_pointers_in_arrays(*args.step, visit);
  return stray;
}

std::string run_on_device(TrackedDevice& device, const KernelEntry& kernel,
                          const KernelArgs& args) {
  DeviceCall call(device, kernel, args);
  const std::string failure = call.run();
  return failure.empty() ? call.copy_back() : failure;
}

std::string run_with_twin(const DeviceKernel& own, const DeviceKernel& twin,
                          const KernelArgs& args) {
  DeviceCall call(own.device, own.kernel, args), other(twin.device, twin.kernel, args);
  for (DeviceCall* each : {&call, &other}) {
    if (std::string failure = each->run(); !failure.empty()) return failure;
  }
  if (call.written() != other.written()) {
    return std::string("outputs: must have the bits of ") + twin.kernel.name;
  }
  return call.copy_back();
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "tests/worker/kernels/run_on_device.h"

#include <algorithm>
#include <map>
#include <vector>

#include "operators/attribute_fields.h"
#include "worker/kernels/device_step.h"
#include "worker/kernels/find.h"

namespace lockstep {
namespace {

// Copies of pieces of the host's memory on the device; one per piece, even if several operands use
// it.
class Mirror {
 public:
  explicit Mirror(Device& device) : device_(device) {}

  template <typename T>
  T* copy(T* host, int64_t bytes) {
    if (host == nullptr) return nullptr;
    Piece& piece = pieces_[host];
    if (piece.memory.data() == nullptr) {
      piece.memory = DeviceMemory(device_, bytes);
      piece.bytes = bytes;
      device_.copy_in(piece.memory.data(), host, bytes);
    }
    return reinterpret_cast<T*>(piece.memory.data());
  }
  void copy_back(void* host) {
    if (host == nullptr) return;
    const Piece& piece = pieces_.at(host);
    device_.copy_out(host, piece.memory.data(), piece.bytes);
  }

 private:
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

// The index of the packed operand. It has packed_bytes for each matrix; experts have one matrix
// each.
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

}  // namespace

std::string run_on_device(Device& device, const KernelEntry& kernel, KernelArgs host) {
  Mirror mirror(device);
  KernelArgs args = copy_in(kernel, host, mirror);
  const bool candidates = kernel.op == Op::kTopCandidates;
  const int64_t begin = candidates ? host.attrs.top_candidates().vocab_begin : 0;
  DeviceStep step(device, {.page_tokens = std::max<int64_t>(1, host.state.page_tokens),
                           .vocab = begin + host.in[0].cols,
                           .slice_columns = host.in[0].cols,
                           .hidden = host.out[0].cols});
  if (host.step != nullptr) args.step = step.take(*host.step);
  const DeviceMemory scratch(device, scratch_bytes(kernel, host, 1));
  args.scratch = scratch.data();
  args.queue = device.queue();
  if (const char* refused = kernel.run(args); refused != nullptr) return refused;
  for (const TensorView& view : host.out) mirror.copy_back(view.data);
  mirror.copy_back(host.state.data);
  const char* failure = host.step != nullptr ? step.give(*host.step) : device.synchronize();
  return failure == nullptr ? "" : failure;
}

}  // namespace lockstep

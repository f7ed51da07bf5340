// SPDX-License-Identifier: Apache-2.0
#include "tests/support/devices/late_device.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "operators/schema/schema.h"
#include "tests/support/devices/kernel_pointers.h"
#include "tests/support/devices/shim_peers.h"
#include "worker/kernels/cuda/shim/table.h"

namespace lockstep {
namespace {

constexpr int64_t kRoom = int64_t{1} << 30;

class LateDevice final : public Device, public ShimPeers {
 public:
  explicit LateDevice(std::string address)
      : address_(std::move(address)),
        room_(static_cast<std::byte*>(
            mmap(nullptr, kRoom, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
    LOCKSTEP_CHECK(room_ != MAP_FAILED);
  }
  ~LateDevice() override {
    LOCKSTEP_CHECK(queue_.empty() && allocated_ == 0);
    munmap(room_, kRoom);
  }

  std::string name() const override { return "late device"; }
  std::string address() const override { return address_; }
  int64_t total_bytes() const override { return kRoom; }
  int64_t free_bytes() const override { return kRoom - used_; }

  // Memory is never reused; there is a guard area between any two pieces.
  std::byte* allocate(int64_t bytes) override {
    LOCKSTEP_CHECK(captured_ == nullptr);
    const int64_t taken = (bytes + 2 * kDeviceAlign) / kDeviceAlign * kDeviceAlign;
    if (used_ + taken > kRoom) return nullptr;
    std::byte* memory = room_ + used_;
    used_ += taken;
    ++allocated_;
    begins_.insert(memory);
    return memory;
  }
  void release(std::byte* memory, int64_t) override {
    LOCKSTEP_CHECK(queue_.empty() && has(memory) && captured_ == nullptr);
    released_.insert(memory);
    --allocated_;
  }
  std::byte* allocate_staging(int64_t bytes) override {
    const std::lock_guard lock(mutex_);
    return *staging_.insert(new std::byte[bytes + 1]).first;
  }
  void release_staging(std::byte* memory, int64_t) override {
    const std::lock_guard lock(mutex_);
    LOCKSTEP_CHECK(queue_.empty() && staging_.erase(memory) == 1);
    delete[] memory;
  }

  void copy_in(std::byte* to, const void* from, int64_t bytes) override {
    LOCKSTEP_CHECK(bytes == 0 || ((has(to) || is_own(to)) && !has(from)));
    copy_rows({.to = to, .from = from, .row_bytes = bytes, .rows = 1});
  }
  void copy_out(void* to, const std::byte* from, int64_t bytes) override {
    LOCKSTEP_CHECK(bytes == 0 || (has(from) && !has(to)));
    copy_rows({.to = to, .from = from, .row_bytes = bytes, .rows = 1});
  }
  void copy_rows(const RowCopy& copy) override {
    push([copy] { host_device()->copy_rows(copy); });
  }
  void clear(std::byte* memory, int64_t bytes) override {
    push([=] { std::memset(memory, 0, static_cast<size_t>(bytes)); });
  }

  const char* begin_capture() override {
    LOCKSTEP_CHECK(captured_ == nullptr);
    captured_ = std::make_unique<Captured>(*this);
    return nullptr;
  }
  std::unique_ptr<CapturedQueue> end_capture(std::string*) override {
    LOCKSTEP_CHECK(captured_ != nullptr);
    return std::move(captured_);
  }

  PeerAccess* peer_access() override { return this; }

  void* queue() const override { return const_cast<LateDevice*>(this); }
  bool done() override {
    synchronize();
    return true;
  }
  const char* synchronize() override { return wait(mark()); }
  int64_t mark() override {
    LOCKSTEP_CHECK(captured_ == nullptr);
    const std::lock_guard lock(mutex_);
    return done_ + static_cast<int64_t>(queue_.size());
  }
  // Runs the work that was queued before the mark, and nothing else.
  const char* wait(int64_t mark) override {
    const std::lock_guard lock(working_);
    LOCKSTEP_CHECK(mprotect(room_, kRoom, PROT_READ | PROT_WRITE) == 0);
    while (const Work work = next_before(mark)) work();
    LOCKSTEP_CHECK(mprotect(room_, kRoom, PROT_NONE) == 0);
    return failure_;
  }
  void use_from_this_thread() override {}

  bool has(const void* pointer) const { return pointer >= room_ && pointer < room_ + used_; }
  // True if the memory is the device's and was not released.
  bool has_still(const void* pointer) const {
    if (!has(pointer)) return false;
    return !released_.contains(
        *std::prev(begins_.upper_bound(static_cast<const std::byte*>(pointer))));
  }

  // Copies the step by value, as a launch does.
  void launch(const KernelEntry& kernel, const KernelArgs& args) {
    check(kernel, args);
    LOCKSTEP_CHECK(args.step != nullptr);
    push([this, &kernel, args = KernelArgs(args), step = *args.step]() mutable {
      check(kernel, args);  // Check again, since it may be replayed.
      check(step);
      args.step = &step;
      const char* failure = kernel.run(args);
      if (failure_ == nullptr) failure_ = failure;
    });
  }

 private:
  using Work = std::function<void()>;
  // A replay queues copies of the work: each copy has its own arguments and may change them.
  struct Captured final : CapturedQueue {
    explicit Captured(LateDevice& owner) : device(owner) {}
    const char* replay() override {
      for (const Work& one : works) device.push(one);
      return nullptr;
    }
    LateDevice& device;
    std::vector<Work> works;
  };

  // Checks, when the exchange runs, that its operands and the group's `ended` still exist.
  void queue_exchange(Exchange exchange) override {
    push([this, exchange = std::move(exchange)] {
      for (const void* operand : exchange.operands) LOCKSTEP_CHECK(has_still(operand));
      LOCKSTEP_CHECK(staging_.contains(reinterpret_cast<const std::byte*>(exchange.ended)));
      exchange.run();
    });
  }

  void push(Work work) {
    if (captured_ != nullptr) return captured_->works.push_back(std::move(work));
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
  }
  // The next work that was queued before the mark; empty: none is left.
  Work next_before(int64_t mark) {
    const std::lock_guard lock(mutex_);
    if (done_ >= mark || queue_.empty()) return {};
    ++done_;
    Work work = std::move(queue_.front());
    queue_.pop_front();
    return work;
  }

  void check(const KernelEntry& kernel, const KernelArgs& args) const {
    visit_pointers(args, [this](const char*, const void* at) { check(at); });
    LOCKSTEP_CHECK(has_still(args.scratch));
    const bool pages = schema_of(kernel.op).state == StateKind::kKvPages;
    if (pages) LOCKSTEP_CHECK(has_still(args.state.data));
  }
  // Call it after the step's arrays have arrived.
  void check(const StepView& step) const {
    const auto ours = [this](const char*, const void* at) { check(at); };
    visit_pointers(step, ours);
    visit_pointers_in_arrays(step, ours);
    for (int64_t i = 0; i < step.sequence_count; ++i) {
      LOCKSTEP_CHECK(has_still(step.sequences[i].pages));
    }
  }
  void check(const void* address) const {
    LOCKSTEP_CHECK(address == nullptr || has_still(address));
  }

  const std::string address_;
  std::byte* const room_;
  int64_t used_ = 0;
  int64_t allocated_ = 0;
  // All memory ever allocated, and all that was released.
  std::set<const std::byte*> begins_, released_;
  std::set<std::byte*, std::less<>> staging_;  // The staging memory that exists now.
  std::unique_ptr<Captured> captured_;         // Null: queued work is run, not captured.
  std::mutex working_;                         // Only one thread works at a time.
  std::mutex mutex_;                           // Guards the queue: several threads may wait.
  std::deque<Work> queue_;
  int64_t done_ = 0;               // The count of all work completed so far.
  const char* failure_ = nullptr;  // A kernel's first failure.
};

// A function for each row of the shim's table, which queues that row's kernel.
constexpr size_t kMaxKernels = 96;

template <size_t kRow>
const char* queue_row(const KernelArgs& args) {
  static_cast<LateDevice*>(args.queue)->launch(cuda_shim_kernels()[kRow], args);
  return nullptr;
}

template <size_t... kRows>
constexpr std::array<KernelFn, sizeof...(kRows)> queue_rows(std::index_sequence<kRows...>) {
  return {queue_row<kRows>...};
}

std::vector<KernelEntry> late_kernels() {
  constexpr auto kQueue = queue_rows(std::make_index_sequence<kMaxKernels>());
  std::vector<KernelEntry> table(cuda_shim_kernels().begin(), cuda_shim_kernels().end());
  LOCKSTEP_CHECK(table.size() <= kMaxKernels);
  for (size_t row = 0; row < table.size(); ++row) table[row].run = kQueue[row];
  return table;
}

Backend backend_at(std::string address) {
  static const std::vector<KernelEntry> kernels = late_kernels();
  return {.device = std::make_unique<LateDevice>(std::move(address)),
          .kernels = kernels,
          .numeric_class = fmt::format("{}@late", kCudaExactClass),
          .memory_fraction = 0.9};
}

}  // namespace

Backend late_backend() { return backend_at("late"); }

Backend late_peer_backend() {
  static std::atomic<int> count = 0;
  return backend_at("late " + std::to_string(++count));
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// The threads of a kernel are fibers. Every thread of a block, or of a cluster of blocks, has a
// stack, and a fiber runs until it waits or ends; then the stack is switched. When no fiber can
// run, some waits end: the wait for a block, a cluster or a warp ends if all of its threads wait,
// the wait for a condition ends if the condition holds. If no wait ends, late work is done. If
// there is no late work, the kernel would hang on a GPU, or do worse.
#include "worker/kernels/cuda/shim/shim.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/check.h"
#include "worker/kernels/cuda/shim/clusters.h"
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

thread_local constinit lockstep::shim::Index threadIdx, blockIdx, blockDim, gridDim;

// Saves the stack and the registers that a call preserves in *from; continues with `to`.
extern "C" void lockstep_shim_switch(void** from, void* to);
asm(R"(
.text
.type lockstep_shim_switch, @function
lockstep_shim_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size lockstep_shim_switch, .-lockstep_shim_switch
)");

namespace lockstep::shim {
namespace {

constexpr int kWarp = 32;
constexpr size_t kStackBytes = 128 << 10;
constexpr size_t kCopyBytes = 16;
constexpr int64_t kMaxSharedBytes = 99 << 10;          // Every GPU of 8.x and 9.x has that much.
constexpr int64_t kMaxClusterSharedBytes = 227 << 10;  // A GPU of 9.0 has that much.

enum class State {
  kReady,
  kWaitsForCluster,
  kWaitsForBlock,
  kWaitsForWarp,
  kWaitsForCondition,
  kDone
};

struct Copy {
  void* to = nullptr;
  const void* from = nullptr;
  int bytes = 0;
};

struct Given {
  alignas(16) std::byte bytes[kMaxGivenBytes];
};

struct Fiber {
  std::unique_ptr<char[]> memory{new char[kStackBytes]};
  void* stack = nullptr;
  State state = State::kReady;
  Given given[2];       // Used alternately: a thread may be one give() ahead of others.
  bool second = false;  // The index of the latest in `given`.
  std::vector<std::vector<Copy>> copies;    // Unfinished groups, the last one still open.
  std::vector<std::vector<Work>> products;  // The same.
  Condition until{};                        // For kWaitsForCondition.
  void* sanitizer_stack = nullptr;
};

// AddressSanitizer must know every switch. `leaving` is null when a fiber ends.
#ifdef __SANITIZE_ADDRESS__
void before_switch(void** leaving, const void* bottom, size_t bytes) {
  __sanitizer_start_switch_fiber(leaving, bottom, bytes);
}
void after_switch(void* returning, const void** bottom, size_t* bytes) {
  __sanitizer_finish_switch_fiber(returning, bottom, bytes);
}
#else
void before_switch(void**, const void*, size_t) {}
void after_switch(void*, const void**, size_t*) {}
#endif

// The blocks that run together.
struct ThreadBlocks {
  std::vector<Fiber> fibers;  // Reused in every run.
  int count = 0;
  int threads = 1;  // In a block.
  int current = 0;
  Index first;  // The first block.
  Order order = Order::kAscending;
  Body body{};
  std::vector<std::vector<std::max_align_t>> shared;  // One for each block.
  std::deque<Work> late;
  void* scheduler = nullptr;
  void* scheduler_sanitizer_stack = nullptr;
  const void* scheduler_bottom = nullptr;
  size_t scheduler_bytes = 0;
};
thread_local ThreadBlocks block;
std::atomic<int64_t> launch_count = 0;

Fiber& running() { return block.fibers[static_cast<size_t>(block.current)]; }

// Switches from the running fiber to the scheduler.
void leave(State state) {
  Fiber& fiber = running();
  fiber.state = state;
  before_switch(state == State::kDone ? nullptr : &fiber.sanitizer_stack, block.scheduler_bottom,
                block.scheduler_bytes);
  lockstep_shim_switch(&fiber.stack, block.scheduler);
  after_switch(fiber.sanitizer_stack, nullptr, nullptr);
}

void enter() {
  after_switch(nullptr, &block.scheduler_bottom, &block.scheduler_bytes);
  block.body.call(block.body.self);
  leave(State::kDone);
}

// Makes the fiber look as if enter() had called lockstep_shim_switch() as its first instruction.
void prepare(Fiber& fiber) {
  auto top = reinterpret_cast<uintptr_t>(fiber.memory.get() + kStackBytes) & ~uintptr_t{15};
  auto** stack = reinterpret_cast<void**>(top - 64);
  for (int i = 0; i < 6; ++i) stack[i] = nullptr;
  stack[6] = reinterpret_cast<void*>(&enter);
  stack[7] = nullptr;
  fiber.stack = stack;
  fiber.state = State::kReady;
  fiber.second = false;
  fiber.copies.assign(1, {});
  fiber.products.assign(1, {});
}

void resume(int index) {
  Fiber& fiber = block.fibers[static_cast<size_t>(index)];
  block.current = index;
  threadIdx = {static_cast<unsigned>(index % block.threads), 0};
  blockIdx = {block.first.x + static_cast<unsigned>(index / block.threads), block.first.y};
  before_switch(&block.scheduler_sanitizer_stack, fiber.memory.get(), kStackBytes);
  lockstep_shim_switch(&block.scheduler, fiber.stack);
  after_switch(block.scheduler_sanitizer_stack, nullptr, nullptr);
}

// Lets threads [begin, end) continue if all of them wait in `state`. A barrier of the block does
// not wait for threads that have ended, but no thread of a waiting warp may have ended.
bool release(int begin, int end, State state) {
  int waiting = 0, done = 0;
  for (int i = begin; i < end; ++i) {
    waiting += block.fibers[static_cast<size_t>(i)].state == state;
    done += block.fibers[static_cast<size_t>(i)].state == State::kDone;
  }
  if (state == State::kWaitsForWarp && done > 0) LOCKSTEP_CHECK(waiting == 0);
  if (waiting == 0 || waiting + done < end - begin) return false;
  for (int i = begin; i < end; ++i) {
    Fiber& fiber = block.fibers[static_cast<size_t>(i)];
    if (fiber.state == state) fiber.state = State::kReady;
  }
  return true;
}

void copy(const Copy& what) {
  std::memset(what.to, 0, kCopyBytes);
  if (what.bytes > 0) std::memcpy(what.to, what.from, static_cast<size_t>(what.bytes));
}

// Lets every thread continue whose wait is over. False: there is none.
bool release_all() {
  bool any = release(0, block.count, State::kWaitsForCluster);
  for (int first = 0; first < block.count; first += block.threads) {
    any |= release(first, first + block.threads, State::kWaitsForBlock);
  }
  for (int warp = 0; warp < block.count; warp += kWarp) {
    any |= release(warp, warp + kWarp, State::kWaitsForWarp);
  }
  for (int i = 0; i < block.count; ++i) {
    Fiber& fiber = block.fibers[static_cast<size_t>(i)];
    if (fiber.state != State::kWaitsForCondition) continue;
    if (!fiber.until.holds(fiber.until.self)) continue;
    fiber.state = State::kReady;
    any = true;
  }
  return any;
}

bool all_done() {
  return std::all_of(block.fibers.begin(), block.fibers.begin() + block.count,
                     [](const Fiber& fiber) { return fiber.state == State::kDone; });
}

void run_blocks() {
  for (auto& shared : block.shared) {
    std::fill_n(reinterpret_cast<std::byte*>(shared.data()),
                shared.size() * sizeof(std::max_align_t), std::byte{0xff});
  }
  for (int i = 0; i < block.count; ++i) prepare(block.fibers[static_cast<size_t>(i)]);
  while (true) {
    for (int i = 0; i < block.count; ++i) {
      const int index = block.order == Order::kAscending ? i : block.count - 1 - i;
      if (block.fibers[static_cast<size_t>(index)].state == State::kReady) resume(index);
    }
    bool any = release_all();
    if (!any && !block.late.empty()) {
      const Work work = std::move(block.late.front());
      block.late.pop_front();
      work();
      any = true;
    }
    if (all_done()) break;
    LOCKSTEP_CHECK(any);  // Else threads wait for others that wait elsewhere.
  }
  LOCKSTEP_CHECK(block.late.empty());  // Late work could write to the next blocks' memory.
}

// Makes the fibers and the shared memory for one cluster; the launch's later clusters reuse them.
void set_up(int64_t blocks_x, int64_t blocks_y, int cluster, int threads, int64_t shared_bytes,
            Body body) {
  ++launch_count;
  LOCKSTEP_CHECK(threads > 0 && threads <= 1024 && threads % kWarp == 0 && shared_bytes >= 0);
  constexpr size_t kUnit = sizeof(std::max_align_t);
  block.shared.resize(static_cast<size_t>(cluster));
  for (auto& shared : block.shared) {
    shared.resize((static_cast<size_t>(shared_bytes) + kUnit - 1) / kUnit);
  }
  block.threads = threads;
  block.count = cluster * threads;
  while (static_cast<int>(block.fibers.size()) < block.count) block.fibers.emplace_back();
  block.body = body;
  blockDim = {static_cast<unsigned>(threads), 1};
  gridDim = {static_cast<unsigned>(blocks_x), static_cast<unsigned>(blocks_y)};
}

}  // namespace

void set_order(Order order) { block.order = order; }

int64_t launches() { return launch_count; }

void run(int64_t blocks_x, int64_t blocks_y, int threads, int64_t shared_bytes, Body body) {
  LOCKSTEP_CHECK(blocks_y <= 65535 && shared_bytes <= kMaxSharedBytes);
  set_up(blocks_x, blocks_y, 1, threads, shared_bytes, body);
  for (int64_t y = 0; y < blocks_y; ++y) {
    for (int64_t x = 0; x < blocks_x; ++x) {
      block.first = {static_cast<unsigned>(x), static_cast<unsigned>(y)};
      run_blocks();
    }
  }
}

void run_clusters(int64_t blocks, int cluster, int threads, int64_t shared_bytes, Body body) {
  LOCKSTEP_CHECK(blocks % cluster == 0 && shared_bytes <= kMaxClusterSharedBytes);
  set_up(blocks, 1, cluster, threads, shared_bytes, body);
  for (int64_t x = 0; x < blocks; x += cluster) {
    block.first = {static_cast<unsigned>(x), 0};
    run_blocks();
  }
}

std::byte* dynamic_shared() { return shared_of(block_in_cluster()); }

int block_in_cluster() { return block.current / block.threads; }
int blocks_in_cluster() { return block.count / block.threads; }

std::byte* shared_of(int of) {
  return reinterpret_cast<std::byte*>(block.shared[static_cast<size_t>(of)].data());
}

void meet_cluster() { leave(State::kWaitsForCluster); }

void wait_until(Condition condition) {
  if (condition.holds(condition.self)) return;
  running().until = condition;
  leave(State::kWaitsForCondition);
}

void do_late(Work work) {
  if (block.order == Order::kDescending) return work();
  block.late.push_back(std::move(work));
}

void give(const void* from, size_t bytes) {
  LOCKSTEP_CHECK(bytes <= kMaxGivenBytes);
  Fiber& fiber = running();
  fiber.second = !fiber.second;
  std::memcpy(fiber.given[fiber.second].bytes, from, bytes);
  leave(State::kWaitsForWarp);
}

const void* given(int lane) {
  const auto first = static_cast<size_t>(block.current / kWarp * kWarp);
  return block.fibers[first + static_cast<size_t>(lane)].given[running().second].bytes;
}

void copy_async(void* to, const void* from, int bytes) {
  LOCKSTEP_CHECK(reinterpret_cast<uintptr_t>(to) % kCopyBytes == 0);
  LOCKSTEP_CHECK(reinterpret_cast<uintptr_t>(from) % kCopyBytes == 0);
  LOCKSTEP_CHECK(bytes >= 0 && bytes <= static_cast<int>(kCopyBytes));
  const Copy wanted{to, from, bytes};
  if (block.order == Order::kDescending) return copy(wanted);
  running().copies.back().push_back(wanted);
}

void commit_copies() { running().copies.emplace_back(); }

void wait_copies(int under_way) {
  auto& groups = running().copies;
  while (static_cast<int>(groups.size()) - 1 > under_way) {
    for (const Copy& each : groups.front()) copy(each);
    groups.erase(groups.begin());
  }
}

void add_product(Work product) {
  if (block.order == Order::kAscending) return product();
  running().products.back().push_back(std::move(product));
}

void commit_products() { running().products.emplace_back(); }

void wait_products(int under_way) {
  auto& groups = running().products;
  while (static_cast<int>(groups.size()) - 1 > under_way) {
    for (const Work& product : groups.front()) product();
    groups.erase(groups.begin());
  }
}

uint64_t nanoseconds() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

void pause(unsigned poll) {
  constexpr unsigned kShort = 200;  // The first polls, while a peer is probably about to arrive.
  if (poll < kShort) return std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::microseconds(50));
}

}  // namespace lockstep::shim

void __syncthreads() { lockstep::shim::leave(lockstep::shim::State::kWaitsForBlock); }

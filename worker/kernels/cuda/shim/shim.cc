// SPDX-License-Identifier: Apache-2.0
// Fibers by a switch of stacks: every thread of a block has one, and runs until it waits or ends.
// Once none can run, those that wait for the block go on if all do, and those that wait for their
// warp if all of it does; anything else is a kernel that would hang, or worse, on a GPU.
#include "worker/kernels/cuda/shim/shim.h"

#include <memory>
#include <vector>

#include "base/check.h"
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

lockstep::shim::Index threadIdx, blockIdx, blockDim, gridDim;

// Saves the registers that a call preserves and the stack in *from, goes on with those of `to`.
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

enum class State { kReady, kWaitsForBlock, kWaitsForWarp, kDone };

struct Fiber {
  std::unique_ptr<char[]> memory{new char[kStackBytes]};
  void* stack = nullptr;
  State state = State::kReady;
  uint64_t given = 0;
  void* sanitizer_stack = nullptr;
};

// AddressSanitizer is told of every switch. `leaving` is null where a fiber ends.
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

struct ThreadBlock {
  std::vector<Fiber> fibers;  // Kept from run to run.
  int count = 0;
  int current = 0;
  Order order = Order::kAscending;
  Body body{};
  void* scheduler = nullptr;
  void* scheduler_sanitizer_stack = nullptr;
  const void* scheduler_bottom = nullptr;
  size_t scheduler_bytes = 0;
};
ThreadBlock block;

// From the running fiber back to the scheduler.
void leave(State state) {
  Fiber& fiber = block.fibers[static_cast<size_t>(block.current)];
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

// As if the fiber had just called lockstep_shim_switch() from enter()'s first instruction.
void prepare(Fiber& fiber) {
  auto top = reinterpret_cast<uintptr_t>(fiber.memory.get() + kStackBytes) & ~uintptr_t{15};
  auto** stack = reinterpret_cast<void**>(top - 64);
  for (int i = 0; i < 6; ++i) stack[i] = nullptr;
  stack[6] = reinterpret_cast<void*>(&enter);
  stack[7] = nullptr;
  fiber.stack = stack;
  fiber.state = State::kReady;
}

void resume(int index) {
  Fiber& fiber = block.fibers[static_cast<size_t>(index)];
  block.current = index;
  threadIdx = {static_cast<unsigned>(index), 0};
  before_switch(&block.scheduler_sanitizer_stack, fiber.memory.get(), kStackBytes);
  lockstep_shim_switch(&block.scheduler, fiber.stack);
  after_switch(block.scheduler_sanitizer_stack, nullptr, nullptr);
}

// Lets threads [begin, end) go on that all wait in `state`; those that have ended wait for nobody
// at a block's border, but a warp must be whole.
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

void run_block() {
  for (int i = 0; i < block.count; ++i) prepare(block.fibers[static_cast<size_t>(i)]);
  while (true) {
    for (int i = 0; i < block.count; ++i) {
      const int index = block.order == Order::kAscending ? i : block.count - 1 - i;
      if (block.fibers[static_cast<size_t>(index)].state == State::kReady) resume(index);
    }
    bool any = release(0, block.count, State::kWaitsForBlock);
    int done = 0;
    for (int warp = 0; warp < block.count; warp += kWarp) {
      any |= release(warp, warp + kWarp, State::kWaitsForWarp);
    }
    for (int i = 0; i < block.count; ++i) {
      done += block.fibers[static_cast<size_t>(i)].state == State::kDone;
    }
    if (done == block.count) return;
    LOCKSTEP_CHECK(any);  // Else some wait for others that wait elsewhere.
  }
}

}  // namespace

void set_order(Order order) { block.order = order; }

void run(int64_t blocks_x, int64_t blocks_y, int threads, Body body) {
  LOCKSTEP_CHECK(threads > 0 && threads <= 1024 && threads % kWarp == 0 && blocks_y <= 65535);
  while (static_cast<int>(block.fibers.size()) < threads) block.fibers.emplace_back();
  block.count = threads;
  block.body = body;
  blockDim = {static_cast<unsigned>(threads), 1};
  gridDim = {static_cast<unsigned>(blocks_x), static_cast<unsigned>(blocks_y)};
  for (int64_t y = 0; y < blocks_y; ++y) {
    for (int64_t x = 0; x < blocks_x; ++x) {
      blockIdx = {static_cast<unsigned>(x), static_cast<unsigned>(y)};
      run_block();
    }
  }
}

uint64_t exchange(uint64_t value, int lane) {
  const int first = block.current / kWarp * kWarp;
  block.fibers[static_cast<size_t>(block.current)].given = value;
  leave(State::kWaitsForWarp);
  const uint64_t taken = block.fibers[static_cast<size_t>(first + lane)].given;
  leave(State::kWaitsForWarp);  // Nobody gives the next value before all have taken this one.
  return taken;
}

}  // namespace lockstep::shim

void __syncthreads() { lockstep::shim::leave(lockstep::shim::State::kWaitsForBlock); }

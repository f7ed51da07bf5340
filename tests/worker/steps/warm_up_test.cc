// SPDX-License-Identifier: Apache-2.0
// The steps that a worker runs before it counts its pages, on a device without a GPU, and how a
// device fault is traced to its kernel.
#include "worker/steps/warm_up.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"
#include "tests/support/devices/late_device.h"
#include "tests/support/devices/wrapped_device.h"
#include "tests/support/steps.h"
#include "tests/support/tiny_program.h"
#include "worker/collectives/devices/staged.h"
#include "worker/collectives/single.h"
#include "worker/steps/state.h"
#include "worker/worker.h"

namespace lockstep {
namespace {

constexpr int64_t kWarmUpRows[] = {1, 3, INT64_MAX};

cluster::Assignment assignment_for(const Backend& backend, int64_t max_pages) {
  cluster::Assignment assignment;
  *assignment.mutable_program() = layer_program();
  assignment.mutable_program()->set_numeric_class(backend.numeric_class);
  assignment.set_random_weights(true);
  assignment.set_random_seed(7);
  assignment.set_max_pages(max_pages);
  return assignment;
}

absl::StatusOr<std::unique_ptr<Worker>> load(const Backend& backend, int64_t max_pages = 0,
                                             Progress* progress = nullptr) {
  return Worker::load(assignment_for(backend, max_pages),
                      staged_collective(single_collective(), *backend.device),
                      {.threads = 2, .progress = progress, .backend = &backend});
}

cluster::Step step_of(uint64_t number, int64_t position) {
  cluster::Step step;
  step.set_step(number);
  add_rows(step, {3, 99, 4}, position, {1, 0});
  return step;
}

// Kernels of the late device, one of which is replaced.
struct Changed {
  std::vector<KernelEntry> kernels;
  Backend backend = late_backend();

  Changed(Op op, KernelFn run) {
    kernels.assign(backend.kernels.begin(), backend.kernels.end());
    for (KernelEntry& kernel : kernels) {
      if (kernel.op != op) continue;
      original = kernel.run;
      kernel.run = run;
    }
    backend.kernels = kernels;
  }
  static inline KernelFn original = nullptr;
};

TEST(WarmUpTest, WarmUpChangesNoAnswer) {
  const Backend cold = late_backend();
  Backend warm = late_backend();
  warm.warm_up_rows.assign(std::begin(kWarmUpRows), std::end(kWarmUpRows));
  auto one = load(cold, 16), other = load(warm, 16);
  ASSERT_EQ(message_of(one.status()), "");
  ASSERT_EQ(message_of(other.status()), "");
  EXPECT_THAT((*other)->profile(), ::testing::HasSubstr("0 steps"));
  for (auto* worker : {&*one, &*other}) ASSERT_EQ(message_of((**worker).start(8)), "");
  for (uint64_t number = 1; number <= 2; ++number) {
    const cluster::Step step = step_of(number, static_cast<int64_t>(number - 1) * 3);
    const auto wanted = (*one)->step(step), found = (*other)->step(step);
    ASSERT_EQ(message_of(found.status()), "");
    ASSERT_EQ(logits_of({*found}, 0), logits_of({*wanted}, 0));
  }
}

std::vector<int64_t> rows_seen;
const char* note_rows(const KernelArgs& args) {
  rows_seen.push_back(args.out[0].rows);
  return Changed::original(args);
}

TEST(WarmUpTest, WarmUpRunsKernelsWithTheRequestedRowsUpToTheLimit) {
  Changed changed(Op::kEmbed, note_rows);
  changed.backend.warm_up_rows.assign(std::begin(kWarmUpRows), std::end(kWarmUpRows));
  rows_seen.clear();
  Progress progress;
  ASSERT_EQ(message_of(load(changed.backend, 16, &progress).status()), "");
  EXPECT_THAT(rows_seen, ::testing::ElementsAre(1, 3, layer_program().limits().rows()));
  EXPECT_EQ(progress.instructions.load(), 0u);
}

// A kernel's first use may take seconds. Without progress a coordinator would consider the worker
// stuck.
TEST(WarmUpTest, EachKernelCountsAsLoadProgress) {
  const Backend cold = late_backend();
  Backend warm = late_backend();
  warm.warm_up_rows = {1};
  Progress without, with;
  ASSERT_EQ(message_of(load(cold, 16, &without).status()), "");
  ASSERT_EQ(message_of(load(warm, 16, &with).status()), "");
  EXPECT_GE(with.load.load(), without.load.load() + 10);
}

// The number of pages whose memory take_memory() leaves free when it first runs.
constexpr int64_t kPagesLeft = 10;
DeviceMemory taken;
Device* taken_of = nullptr;
int64_t bytes_left = 0;
const char* take_memory(const KernelArgs& args) {
  if (taken.data() == nullptr) {
    taken = DeviceMemory(*taken_of, taken_of->free_bytes() - bytes_left - 2 * kDeviceAlign);
  }
  return Changed::original(args);
}

TEST(WarmUpTest, MemoryThatAKernelTakesAtItsFirstUseIsNotCountedForPages) {
  Changed changed(Op::kLinear, take_memory);
  taken_of = changed.backend.device.get();
  const program::Program program = layer_program();
  bytes_left = kPagesLeft * page_bytes_of(program, *bind(program, changed.backend));
  auto worker = load(changed.backend);
  ASSERT_EQ(message_of(worker.status()), "");
  // Without a warm-up, the memory that the kernel will take counts as free.
  EXPECT_GT((*worker)->pages_possible(), kPagesLeft);
  worker->reset();
  changed.backend.warm_up_rows = {1};
  worker = load(changed.backend);
  ASSERT_EQ(message_of(worker.status()), "");
  EXPECT_LE((*worker)->pages_possible(), kPagesLeft);
  EXPECT_GE((*worker)->pages_possible(), kPagesLeft / 2);
  worker->reset();
  taken = DeviceMemory();
}

const char* refuse(const KernelArgs&) { return "no kernel image is available"; }

TEST(WarmUpTest, AKernelThatCannotRunIsFoundWhileLoading) {
  Changed changed(Op::kRmsNorm, refuse);
  changed.backend.warm_up_rows = {1};
  EXPECT_EQ(message_of(load(changed.backend).status()),
            "rank 0: kernel rms_norm_cuda_shim: no kernel image is available");
}

bool faulted = false;
const char* fault(const KernelArgs& args) {
  faulted = true;  // The launch itself succeeds, like on a GPU.
  return Changed::original(args);
}

class FaultyDevice final : public WrappedDevice {
 public:
  using WrappedDevice::WrappedDevice;
  const char* synchronize() override {
    const char* failure = WrappedDevice::synchronize();
    return faulted ? "an illegal address" : failure;
  }
};

TEST(KernelFaultTest, AFaultNamesItsKernelIfEachKernelIsChecked) {
  for (const bool checks : {false, true}) {
    faulted = false;
    Changed changed(Op::kRmsNorm, fault);
    changed.backend.device = std::make_unique<FaultyDevice>(std::move(changed.backend.device));
    changed.backend.check_each_kernel = checks;
    auto worker = load(changed.backend, 16);
    ASSERT_EQ(message_of(worker.status()), "");
    ASSERT_EQ(message_of((*worker)->start(8)), "");
    EXPECT_EQ(message_of((*worker)->step(step_of(1, 0)).status()),
              checks ? "rank 0: kernel rms_norm_cuda_shim: an illegal address"
                     : "rank 0: late device: an illegal address");
  }
  faulted = false;
}

}  // namespace
}  // namespace lockstep

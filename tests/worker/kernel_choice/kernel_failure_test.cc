// SPDX-License-Identifier: Apache-2.0
// A kernel that cannot run ends its step, and the error names it.
#include <gtest/gtest.h>

#include "base/status.h"
#include "tests/support/steps.h"
#include "tests/support/tiny_program.h"
#include "worker/collectives/single.h"
#include "worker/kernels/find.h"
#include "worker/worker.h"

namespace lockstep {
namespace {

const char* refuse(const KernelArgs&) { return "out of registers"; }

TEST(KernelFailureTest, AKernelThatFailsEndsTheStepAndIsNamed) {
  std::vector<KernelEntry> kernels(cpu_kernels().begin(), cpu_kernels().end());
  for (KernelEntry& kernel : kernels) {
    if (kernel.op == Op::kLinear) kernel.run = refuse;
  }
  const Backend backend{.device = host_device(), .kernels = kernels};
  auto worker = Worker::load(random_assignment(), single_collective(), {.backend = &backend});
  ASSERT_EQ(message_of(worker.status()), "");
  ASSERT_EQ(message_of((*worker)->start(8)), "");
  cluster::Step step;
  step.set_step(1);
  add_rows(step, {5}, 0, {0});
  const absl::Status status = (*worker)->step(step).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(message_of(status), "rank 0: kernel linear_f32_portable: out of registers");
}

}  // namespace
}  // namespace lockstep

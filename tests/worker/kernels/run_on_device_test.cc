// SPDX-License-Identifier: Apache-2.0
// The kernels' tests pass no address of host memory to a GPU, and find outputs that differ.
#include "tests/worker/kernels/run_on_device.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "tests/worker/kernels/kernel_case.h"
#include "worker/kernels/cuda/shim/table.h"

namespace lockstep {
namespace {

class RunOnDeviceTest : public testing::Test {
 protected:
  // The error of a call in which `change` replaces one address by `host`, which is host memory.
  std::string error_of(const std::function<void(KernelArgs&, StepView&, void* host)>& change) {
    const DeviceMemory memory(device_, 4096);
    float host[8] = {};
    StepSequence sequence{.pages = reinterpret_cast<const int32_t*>(memory.data())};
    OutputSpec output;
    StepView step{.sequences = reinterpret_cast<const StepSequence*>(memory.data()),
                  .sequence_count = 1,
                  .outputs = reinterpret_cast<OutputSpec*>(memory.data() + sizeof(sequence)),
                  .output_count = 1};
    KernelArgs args{.step = &step};
    for (TensorView& view : args.in) view.data = memory.data();
    std::memcpy(memory.data(), &sequence, sizeof(sequence));
    std::memcpy(memory.data() + sizeof(sequence), &output, sizeof(output));
    change(args, step, host);
    return host_pointer_of(device_, args);
  }

  TrackedDevice device_{host_device(), /*readable=*/true};
};

TEST_F(RunOnDeviceTest, EveryAddressOfTheHostIsFound) {
  EXPECT_EQ(error_of([](KernelArgs&, StepView&, void*) {}), "");
  const std::string found = ": must be in the device's memory";
  EXPECT_EQ(error_of([](auto& args, auto&, void* host) { args.in[3].data = host; }),
            "an input" + found);
  EXPECT_EQ(error_of([](auto& args, auto&, void* host) { args.out[1].data = host; }),
            "an output" + found);
  EXPECT_EQ(error_of([](auto& args, auto&, void* host) {
              args.attrs = AttentionAttrs{.slopes = {static_cast<float*>(host), 8}};
            }),
            "a list of the attributes" + found);
  EXPECT_EQ(error_of([](auto& args, auto&, void* host) {
              args.state.data = static_cast<std::byte*>(host);
            }),
            "the state" + found);
  EXPECT_EQ(
      error_of([](auto& args, auto&, void* host) { args.scratch = static_cast<std::byte*>(host); }),
      "the scratch" + found);
  EXPECT_EQ(error_of([](auto&, auto& step, void* host) {
              step.positions = static_cast<const int32_t*>(host);
            }),
            "positions" + found);
  EXPECT_EQ(error_of([](auto&, auto& step, void* host) {
              const_cast<StepSequence*>(step.sequences)->pages = static_cast<const int32_t*>(host);
            }),
            "pages" + found);
  EXPECT_EQ(error_of([](auto&, auto& step, void* host) {
              step.outputs->logits = static_cast<float*>(host);
            }),
            "logits" + found);
}

TEST_F(RunOnDeviceTest, ReleasedMemoryDoesNotCountAsTheDevices) {
  const std::byte* released = DeviceMemory(device_, 64).data();
  const DeviceMemory memory(device_, 64);
  EXPECT_TRUE(device_.has(memory.data()) && device_.has(memory.data() + 63));
  EXPECT_FALSE(device_.has(memory.data() + 64) || device_.has(memory.data() - 1));
  EXPECT_TRUE(released == memory.data() || !device_.has(released));
}

TEST_F(RunOnDeviceTest, ATwinMustHaveTheSameBits) {
  const auto kernel_of = [](Op op) {
    return *find_kernel(cuda_shim_kernels(), op, DType::kNone, DType::kF32, Isa::kPortable);
  };
  const KernelEntry sum = kernel_of(Op::kAdd), product = kernel_of(Op::kMul);
  const Matrix a = Matrix::random(3, 5, 1), b = Matrix::random(3, 5, 2);
  const Matrix out(3, 5, DType::kF32, 7);
  KernelArgs args;
  args.in[0] = a.view();
  args.in[1] = b.view();
  args.out[0] = out.view();
  EXPECT_EQ(run_with_twin({device_, sum}, {device_, product}, args),
            "outputs: must have the bits of " + std::string(product.name));
  EXPECT_TRUE(out.is_untouched());
  EXPECT_EQ(run_with_twin({device_, sum}, {device_, sum}, args), "");
  EXPECT_EQ(out.at(2, 4), a.at(2, 4) + b.at(2, 4));
}

}  // namespace
}  // namespace lockstep

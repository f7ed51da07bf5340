// SPDX-License-Identifier: Apache-2.0
// Devices without a worker: their tables of kernels, a step's copies to the device and back, and a
// missing GPU.
#include <cstring>
#include <set>
#include <thread>

#include "base/numbers/math.h"
#include "tests/worker/kernels/kernel_case.h"
#include "worker/kernels/cuda/shim/table.h"
#include "worker/kernels/cuda/sizes.h"
#include "worker/kernels/device.h"
#include "worker/kernels/device_step.h"

namespace lockstep {
namespace {

TEST(CudaTableTest, EveryOperatorOfTheCpusTableHasAKernelForTheSameTypes) {
  for (const KernelEntry& cpu : cpu_kernels()) {
    // No GPU takes rows that are already rounded: programs for GPUs have none.
    if (cpu.op == Op::kRoundGroups) continue;
    // A GPU's float16 weights need rows of the same type.
    const bool half = cpu.op == Op::kLinear && cpu.weight == DType::kF16;
    const DType rows = half ? DType::kF16 : cpu.activation;
    EXPECT_NE(find_kernel(cuda_shim_kernels(), cpu.op, cpu.weight, rows, Isa::kPortable), nullptr)
        << cpu.name;
  }
}

// A proof compares gated_linear's sums with linear's, so both must exist.
TEST(CudaTableTest, GatedLinearHasEveryTypeOfLinearExceptFloat32) {
  for (const KernelEntry& entry : cuda_shim_kernels()) {
    const bool gated = entry.op == Op::kGatedLinear;
    if (!gated && (entry.op != Op::kLinear || entry.weight == DType::kF32)) continue;
    const Op other = gated ? Op::kLinear : Op::kGatedLinear;
    EXPECT_NE(find_kernel(cuda_shim_kernels(), other, entry.weight, entry.activation, entry.isa),
              nullptr)
        << entry.name;
  }
}

TEST(CudaTableTest, NamesAreUniqueAndWeightMatricesArePacked) {
  std::set<std::string> names;
  for (const auto table : {cuda_shim_kernels(), cuda_kernels()}) {
    for (const KernelEntry& entry : table) {
      EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
      EXPECT_EQ(std::string(entry.name).find(op_name(entry.op)), 0u) << entry.name;
      const bool packs = entry.op == Op::kLinear || entry.op == Op::kGatedLinear ||
                         entry.op == Op::kExpertLinear || entry.op == Op::kEmbed;
      EXPECT_EQ(entry.pack != nullptr, packs) << entry.name;
      EXPECT_EQ(entry.packed_bytes != nullptr, packs) << entry.name;
    }
  }
}

TEST(CudaTableTest, AttentionRefusesHeadsWiderThanItsThreadBlocks) {
  const std::unique_ptr<Device> host = host_device();
  for (const KernelEntry& entry : cuda_shim_kernels()) {
    const bool attends = entry.op == Op::kAttention || entry.op == Op::kRopeAttention;
    EXPECT_EQ(entry.page_bytes != nullptr, attends) << entry.name;
    if (!attends) continue;
    const auto fits = [&](int64_t head_dim, int64_t v_dim) {
      return entry.fits(AttentionAttrs{.head_dim = head_dim, .v_dim = v_dim}, *host);
    };
    EXPECT_EQ(fits(1024, 1024), nullptr) << entry.name;
    EXPECT_STREQ(fits(1025, 1025), "head_dim up to 1024");
    EXPECT_STREQ(fits(64, 1025), "v_dim up to 1024");
    EXPECT_EQ(fits(64, 128), nullptr);
    const int64_t scale = entry.weight == DType::kI8 ? 4 : 0;
    EXPECT_EQ(entry.page_bytes({16, 3, 20, 20, entry.weight}),
              16 * 3 * (40 * dtype_bytes(entry.weight) + 2 * scale));
    EXPECT_EQ(entry.page_bytes({16, 3, 20, 0, entry.weight}),
              16 * 3 * (20 * dtype_bytes(entry.weight) + scale));
  }
}

TEST(CudaDeviceTest, AMissingGpuIsExplainedInOneLine) {
  std::string problem;
  if (!cuda_devices(&problem).empty()) GTEST_SKIP() << "there is a GPU";
  EXPECT_FALSE(problem.empty());
  EXPECT_EQ(problem.find('\n'), std::string::npos);
  EXPECT_EQ(open_cuda_device(0, &problem), nullptr);
}

TEST(CudaDeviceTest, CopiesToTheDeviceAndBackRunInOrder) {
  std::string problem;
  const std::unique_ptr<Device> gpu = open_cuda_device(0, &problem);
  const std::unique_ptr<Device> host = host_device();
  for (Device* device : {host.get(), gpu.get()}) {
    if (device == nullptr) continue;
    std::vector<std::byte> from(1000, std::byte{7}), to(1000);
    const DeviceMemory memory(*device, 1000);
    ASSERT_NE(memory.data(), nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % kDeviceAlign, 0u);
    device->copy_in(memory.data(), from.data(), 1000);
    device->clear(memory.data() + 10, 5);
    device->copy_out(to.data(), memory.data(), 1000);
    ASSERT_EQ(device->synchronize(), nullptr);
    std::fill_n(from.begin() + 10, 5, std::byte{0});
    EXPECT_EQ(to, from);
  }
}

TEST(CudaDeviceTest, AllocatingTooMuchMemoryGivesNullAndNoFault) {
  std::string problem;
  const std::unique_ptr<Device> gpu = open_cuda_device(0, &problem);
  if (gpu == nullptr) GTEST_SKIP() << problem;
  EXPECT_EQ(DeviceMemory(*gpu, int64_t{1} << 50).data(), nullptr);
  EXPECT_EQ(gpu->synchronize(), nullptr);
  EXPECT_GT(gpu->total_bytes(), gpu->free_bytes() - 1);
}

TEST(CudaDeviceTest, AMarkIsPassedWhenAllWorkBeforeItHasEndedDespiteLaterMarks) {
  std::string problem;
  const std::unique_ptr<Device> gpu = open_cuda_device(0, &problem);
  const std::unique_ptr<Device> host = host_device();
  constexpr int64_t kBytes = 32 << 20;
  for (Device* device : {host.get(), gpu.get()}) {
    if (device == nullptr) continue;
    const DeviceMemory memory(*device, kBytes);
    const StagingMemory from(*device, kBytes), to(*device, kBytes);
    ASSERT_TRUE(from.data() != nullptr && to.data() != nullptr);
    for (int round = 1; round <= 3; ++round) {
      std::memset(from.data(), round, kBytes);
      device->copy_in(memory.data(), from.data(), kBytes);
      device->copy_out(to.data(), memory.data(), kBytes);
      const int64_t mark = device->mark();
      for (int later = 0; later < 200; ++later) device->mark();
      ASSERT_EQ(device->wait(mark), nullptr);
      EXPECT_EQ(to.data()[kBytes - 1], static_cast<std::byte>(round));
    }
    ASSERT_EQ(device->synchronize(), nullptr);
  }
}

TEST(CudaDeviceTest, CapturedWorkRunsInEachReplayAndNotBefore) {
  std::string problem;
  const std::unique_ptr<Device> gpu = open_cuda_device(0, &problem);
  EXPECT_NE(host_device()->begin_capture(), nullptr);
  if (gpu == nullptr) GTEST_SKIP() << problem;
  const DeviceMemory from(*gpu, 64), to(*gpu, 64);
  std::vector<std::byte> given(64), found(64);
  ASSERT_EQ(gpu->begin_capture(), nullptr);
  gpu->copy_rows({.to = to.data(), .from = from.data(), .row_bytes = 64, .rows = 1});
  const std::unique_ptr<CapturedQueue> queue = gpu->end_capture(&problem);
  ASSERT_NE(queue, nullptr) << problem;
  for (int round = 0; round <= 2; ++round) {
    given.assign(64, static_cast<std::byte>(round));
    if (round > 0) {
      gpu->copy_in(from.data(), given.data(), 64);
      ASSERT_EQ(queue->replay(), nullptr);
    }
    gpu->copy_out(found.data(), to.data(), 64);
    ASSERT_EQ(gpu->synchronize(), nullptr);
    EXPECT_EQ(found, given);
  }
}

TEST(CudaDeviceTest, AFailedCaptureIsNoFault) {
  std::string problem;
  const std::unique_ptr<Device> gpu = open_cuda_device(0, &problem);
  if (gpu == nullptr) GTEST_SKIP() << problem;
  const DeviceMemory from(*gpu, 64);
  ASSERT_EQ(gpu->begin_capture(), nullptr);
  gpu->copy_rows({.to = nullptr, .from = from.data(), .row_bytes = 64, .rows = 1});
  problem.clear();
  EXPECT_EQ(gpu->end_capture(&problem), nullptr);
  EXPECT_NE(problem, "");
  EXPECT_EQ(gpu->synchronize(), nullptr);
  EXPECT_EQ(gpu->begin_capture(), nullptr) << "another capture may follow";
  EXPECT_NE(gpu->end_capture(&problem), nullptr) << problem;
}

TEST(CudaDeviceTest, PollingADeviceThatIsBusyIsNoFault) {
  std::string problem;
  const std::unique_ptr<Device> gpu = open_cuda_device(0, &problem);
  if (gpu == nullptr) GTEST_SKIP() << problem;
  constexpr int64_t kBytes = 256 << 20;
  const DeviceMemory memory(*gpu, kBytes);
  const StagingMemory from(*gpu, kBytes);
  ASSERT_NE(from.data(), nullptr);
  gpu->copy_in(memory.data(), from.data(), kBytes);
  EXPECT_FALSE(gpu->done());  // The copy takes milliseconds.
  while (!gpu->done()) {
  }
  EXPECT_EQ(gpu->synchronize(), nullptr);
}

TEST(CudaDeviceTest, OtherThreadsMayUseMemoryWithoutSelectingTheGpu) {
  std::string problem;
  const std::unique_ptr<Device> gpu = open_cuda_device(0, &problem);
  if (gpu == nullptr) GTEST_SKIP() << problem;
  std::thread([&] {
    const DeviceMemory memory(*gpu, 1000);
    EXPECT_NE(memory.data(), nullptr);
    EXPECT_GT(gpu->free_bytes(), 0);
  }).join();
  EXPECT_EQ(gpu->synchronize(), nullptr);
}

struct Step {
  std::vector<int32_t> tokens = {5, -1, 7}, positions = {0, 1, 20}, sequence_of_row = {0, 0, 1};
  std::vector<int32_t> pages[2] = {{3}, {8, 9}};
  std::vector<StepSequence> sequences = {{0, 2, 0, pages[0].data()}, {2, 1, 20, pages[1].data()}};
  std::vector<int32_t> output_rows = {1, 2};
  std::vector<OutputSpec> requests{2};
  std::vector<float> embeddings = {0.5f, 1.5f};
  std::vector<LogitEdit> edits = {{3, 2, 1}};
  std::vector<uint64_t> mask = {5, 6};
  std::vector<Candidate> top{4}, raw_top{1};
  std::vector<BlockSum> sums{2};
  std::vector<float> logits = std::vector<float>(100);
  StepView view;

  Step() {
    requests[0] = {.temperature = 0.5f,
                   .edits = edits.data(),
                   .edit_count = 1,
                   .mask = mask.data(),
                   .top = top.data(),
                   .top_count = 4,
                   .logits = logits.data()};
    requests[1] = {.raw_top = raw_top.data(), .raw_top_count = 1, .raw_sums = sums.data()};
    view = {.rows = 3,
            .tokens = tokens.data(),
            .positions = positions.data(),
            .sequence_of_row = sequence_of_row.data(),
            .sequences = sequences.data(),
            .sequence_count = 2,
            .output_rows = output_rows.data(),
            .outputs = requests.data(),
            .output_count = 2,
            .embeddings = embeddings.data()};
  }
};

constexpr StepSizes kSizes = {.page_tokens = 16, .vocab = 128, .slice_columns = 100, .hidden = 2};

TEST(DeviceStepTest, EverythingAStepPointsToIsOnTheDevice) {
  const std::unique_ptr<Device> device = host_device();
  DeviceStep on_device(*device, kSizes);
  Step step;
  const StepView* there = on_device.take(step.view);
  ASSERT_NE(there, nullptr);
  step.tokens = step.positions = {0, 0, 0};  // This does not change the device's copies.
  EXPECT_EQ(there->tokens[1], -1);
  EXPECT_EQ(there->positions[2], 20);
  EXPECT_EQ(there->sequence_of_row[2], 1);
  EXPECT_EQ(there->sequences[1].pages[1], 9);
  EXPECT_NE(there->sequences[1].pages, step.pages[1].data());
  EXPECT_EQ(there->output_rows[1], 2);
  EXPECT_EQ(there->embeddings[1], 1.5f);
  const OutputSpec& request = there->outputs[0];
  EXPECT_EQ(request.temperature, 0.5f);
  EXPECT_EQ(request.edits[0].id, 3);
  EXPECT_EQ(request.mask[1], 6u);
  EXPECT_NE(request.top, step.top.data());
  EXPECT_EQ(request.edited_sums, nullptr);
  EXPECT_EQ(there->outputs[1].mask, nullptr);
  EXPECT_EQ(there->outputs[1].logits, nullptr);
}

TEST(DeviceStepTest, AnswersAreCopiedToTheHostsAddresses) {
  const std::unique_ptr<Device> device = host_device();
  DeviceStep on_device(*device, kSizes);
  Step step;
  for (int round = 1; round <= 2; ++round) {  // The second round reuses the buffer.
    StepView* there = on_device.take(step.view);
    OutputSpec& first = there->outputs[0];
    first.top_found = 1;
    first.top[0] = {round, 2, 3, 4};
    first.top[1] = {99, 9, 9, 9};  // Not found: must not be copied back.
    first.noisy = {7, 0, 0, 0};
    first.logits[99] = 3.5f;
    there->outputs[1].raw_top_found = 1;
    there->outputs[1].raw_top[0].id = 12;
    there->outputs[1].raw_sums[1] = {1, 2};
    ASSERT_EQ(on_device.give(step.view), nullptr);
    EXPECT_EQ(step.requests[0].top_found, 1);
    EXPECT_EQ(step.top[0].id, round);
    EXPECT_EQ(step.top[1].id, -1);
    EXPECT_EQ(step.requests[0].noisy.id, 7);
    EXPECT_EQ(step.logits[99], 3.5f);
    EXPECT_EQ(step.raw_top[0].id, 12);
    EXPECT_EQ(step.sums[1].sum, 2);
    EXPECT_EQ(step.requests[0].top, step.top.data());
    EXPECT_EQ(step.requests[0].edits, step.edits.data());
  }
}

// A graph of launches keeps these addresses.
TEST(DeviceStepTest, ArraysAddressesDependOnlyOnTheirLengths) {
  const std::unique_ptr<Device> device = host_device();
  DeviceStep on_device(*device, kSizes);
  Step step;
  const StepView before = *on_device.take(step.view);
  step.sequences[0].first_position = 500;
  step.pages[0].resize(64);
  step.sequences[0].pages = step.pages[0].data();
  step.requests[0].mask = nullptr;
  step.requests[1].top = step.top.data();
  step.requests[1].top_count = 4;
  const StepView after = *on_device.take(step.view);
  EXPECT_EQ(after.tokens, before.tokens);
  EXPECT_EQ(after.positions, before.positions);
  EXPECT_EQ(after.sequence_of_row, before.sequence_of_row);
  EXPECT_EQ(after.sequences, before.sequences);
  EXPECT_EQ(after.output_rows, before.output_rows);
  EXPECT_EQ(after.outputs, before.outputs);
  EXPECT_GT(after.longest, before.longest);
  step.view.longest = 1024;
  EXPECT_EQ(on_device.take(step.view)->longest, 1024);
}

TEST(DeviceStepTest, AStepWithoutRowsAndOutputsIsValid) {
  const std::unique_ptr<Device> device = host_device();
  DeviceStep on_device(*device, kSizes);
  StepView empty;
  ASSERT_NE(on_device.take(empty), nullptr);
  EXPECT_EQ(on_device.give(empty), nullptr);
}

// A graph's replay copies no requests in.
TEST(DeviceStepTest, ARepeatedCallOfTopCandidatesGivesTheSameAnswers) {
  const std::unique_ptr<Device> device = host_device();
  const KernelEntry kernel = *find_kernel(cuda_shim_kernels(), Op::kTopCandidates, DType::kNone,
                                          DType::kF32, Isa::kPortable);
  const Matrix logits = Matrix::random(2, 5000, 1);
  std::vector<Candidate> top(70);
  std::vector<OutputSpec> requests{2};
  requests[0] = {.temperature = 0.8f, .want_noisy = true};
  requests[1] = {.top = top.data(), .top_count = 70};
  StepView step{.outputs = requests.data(), .output_count = 2};
  DeviceStep on_device(*device, {.page_tokens = 16, .vocab = 5000, .slice_columns = 5000});
  KernelArgs args{.attrs = TopCandidatesAttrs{}, .step = on_device.take(step)};
  args.in[0] = logits.view();
  const DeviceMemory scratch(*device, scratch_bytes(kernel, args, 1));
  args.scratch = scratch.data();
  int32_t winner = -1;
  for (int call = 0; call < 3; ++call) {
    for (int64_t i = 0; i < 2; ++i) args.step->outputs[i].top_found = -1;
    args.step->outputs[0].noisy = {};
    std::memset(scratch.data(), 0xff, static_cast<size_t>(scratch.bytes()));
    ASSERT_EQ(kernel.run(args), nullptr);
    EXPECT_EQ(args.step->outputs[0].slices_done, 0);
    ASSERT_EQ(on_device.give(step), nullptr);
    EXPECT_EQ(requests[0].top_found, 0);
    EXPECT_EQ(requests[1].top_found, 70);
    if (call == 0) winner = requests[0].noisy.id;
    EXPECT_GE(winner, 0);
    EXPECT_EQ(requests[0].noisy.id, winner);
  }
}

TEST(CastTest, ACastRoundsToFloat16) {
  const float values[] = {1.0f, 1.0f + 0x1p-11f, 65520.0f, -0.0f, 3e-7f, std::nanf("")};
  for (const KernelEntry& kernel : kernels_of(Op::kCast)) {
    Matrix x(1, 6), y(1, 6, DType::kF16);
    std::copy(std::begin(values), std::end(values), x.view().row<float>(0));
    KernelArgs args;
    args.in[0] = x.view();
    args.out[0] = y.view();
    run(kernel, args);
    for (int64_t i = 0; i < 6; ++i) {
      EXPECT_EQ(y.view().row<uint16_t>(0)[i], float_to_f16(values[i])) << values[i];
    }
  }
}

}  // namespace
}  // namespace lockstep

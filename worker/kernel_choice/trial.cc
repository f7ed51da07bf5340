// SPDX-License-Identifier: Apache-2.0
#include "worker/kernel_choice/trial.h"

#include <algorithm>
#include <cstring>

#include "base/numbers/float16.h"
#include "base/numbers/noise.h"
#include "base/status.h"
#include "worker/kernels/find.h"

namespace lockstep {
namespace {

constexpr int64_t kTimedNs = 20'000'000;

void write(float number, DType dtype, std::byte* to) {
  const uint16_t half = dtype == DType::kF16 ? float_to_f16(number) : float_to_bf16(number);
  const bool wide = dtype == DType::kF32;
  std::memcpy(to, wide ? static_cast<const void*>(&number) : &half, wide ? 4 : 2);
}

}  // namespace

float trial_x(int64_t row, int64_t k) {
  const uint64_t bits =
      exact::mix(static_cast<uint64_t>(row) * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(k) + 1);
  return static_cast<float>(static_cast<int>(bits >> 32) % 128) / 128.0f;  // 7 bits and a sign.
}

absl::StatusOr<DeviceMemory> trial_numbers(const TrialPlace& place, int64_t first_row, int64_t rows,
                                           int64_t cols, DType dtype) {
  const int64_t element = dtype_bytes(dtype), bytes = rows * cols * element;
  ASSIGN_OR_RETURN(DeviceMemory memory, allocate_memory(place.device, bytes, "trials"));
  std::vector<std::byte> here(static_cast<size_t>(bytes));
  for_each(place.parallel, rows, [&](int64_t row) {
    for (int64_t k = 0; k < cols; ++k) {
      write(trial_x(first_row + row, k), dtype, here.data() + (row * cols + k) * element);
    }
  });
  place.device.copy_in(memory.data(), here.data(), bytes);
  RETURN_IF_ERROR(device_status(place.device.synchronize(), place.device));
  return memory;
}

absl::StatusOr<Weights> trial_weights(const TrialPlace& place, const WeightSource& source,
                                      const program::Weight& weight, const KernelEntry& packer) {
  program::Program program;
  *program.add_weights() = weight;
  Bindings packing;
  packing.packers.push_back(&packer);
  packing.used.push_back(true);
  return Weights::load(program, packing, plan_weights(program, packing), source, place.device,
                       place.parallel, {.progress = place.progress, .for_trial = true});
}

absl::Status TrialCalls::reserve(const KernelEntry& kernel, const KernelArgs& largest) {
  const int64_t bytes = scratch_bytes(kernel, largest, place_.parallel.threads());
  if (scratch_.data() != nullptr && bytes <= scratch_.bytes()) return absl::OkStatus();
  scratch_ = DeviceMemory();
  ASSIGN_OR_RETURN(scratch_,
                   allocate_memory(place_.device, std::max(bytes, kMemoryAlign), "trials"));
  return absl::OkStatus();
}

absl::StatusOr<const char*> TrialCalls::call(const KernelEntry& kernel, const KernelArgs& args,
                                             int64_t times) {
  StepView rows{.rows = args.out[0].rows};
  KernelArgs now = args;
  if (now.step == nullptr) now.step = &rows;
  now.parallel = &place_.parallel;
  now.scratch = scratch_.data();
  now.queue = place_.device.queue();
  const char* refused = nullptr;
  for (int64_t i = 0; refused == nullptr && i < times; ++i) refused = kernel.run(now);
  RETURN_IF_ERROR(device_status(place_.device.synchronize(), place_.device));
  if (place_.progress != nullptr) place_.progress->add_load(1);
  return refused;
}

absl::StatusOr<bool> TrialCalls::compute(const KernelEntry& kernel, const KernelArgs& args,
                                         const DeviceMemory& out, Trial* trial) {
  place_.device.clear(out.data(), out.bytes());
  ASSIGN_OR_RETURN(const char* const refused, call(kernel, args, 1));
  if (refused == nullptr) return true;
  trial->refuse(fmt::format("it cannot run on {} rows: {}", args.out[0].rows, refused));
  return false;
}

absl::Status TrialCalls::time(const KernelEntry& kernel, const KernelArgs& args, int64_t max_calls,
                              TriedRows* tried) {
  int64_t begin = place_.now_ns();
  RETURN_IF_ERROR(call(kernel, args, 1).status());
  tried->ns = std::max<int64_t>(1, place_.now_ns() - begin);
  const int64_t times = std::min(max_calls, kTimedNs / tried->ns);
  if (times < 2) return absl::OkStatus();
  begin = place_.now_ns();
  RETURN_IF_ERROR(call(kernel, args, times).status());
  tried->ns = std::max<int64_t>(1, (place_.now_ns() - begin) / times);
  return absl::OkStatus();
}

absl::Status blame(const absl::Status& status, int64_t rows, Trial* trial) {
  if (absl::IsInternal(status)) {
    trial->refuse(fmt::format("on {} rows: {}", rows, message_of(status)));
  }
  return status;
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "worker/backend.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/status.h"
#include "base/system/cpu.h"
#include "worker/kernels/find.h"
#include "worker/kernels/report.h"

namespace lockstep {
namespace {

constexpr int64_t kProofMs = 20'000;

// The N of "cuda:N"; -1 if `device` has another form.
int gpu_index(const std::string& device) {
  int index = -1;
  if (!device.starts_with("cuda:")) return -1;
  const char* end = device.data() + device.size();
  const auto [stop, error] = std::from_chars(device.data() + 5, end, index);
  return error == std::errc() && stop == end && index >= 0 ? index : -1;
}

std::string count_text(const Gpus& gpus) {
  return gpus.devices.size() == 1 ? "there is 1" : fmt::format("there are {}", gpus.devices.size());
}

absl::Status check_gpu(const std::string& wanted, int index, const Gpus& gpus) {
  if (index >= static_cast<int>(gpus.devices.size())) {
    return failed_precondition("--device {}: GPUs are numbered from 0, and {} here", wanted,
                               count_text(gpus));
  }
  const CudaDeviceInfo& gpu = gpus.devices[index];
  if (gpu.major >= kMinCudaMajor) return absl::OkStatus();
  return failed_precondition(
      "--device {0}: compute capability of GPU {1} ({2}) must be {5}.0 or more, found {3}.{4}; use "
      "--device cpu",
      wanted, index, gpu.name, gpu.major, gpu.minor, kMinCudaMajor);
}

absl::StatusOr<std::vector<std::string>> gpu_each(const std::string& wanted, int workers,
                                                  const Gpus& gpus) {
  if (workers > static_cast<int>(gpus.devices.size())) {
    return failed_precondition(
        "--device {}: {} workers need one GPU each, {}: use --workers {}, or --device cuda:0 to "
        "share one",
        wanted, workers, count_text(gpus), gpus.devices.size());
  }
  std::vector<std::string> devices;
  for (int index = 0; index < workers; ++index) {
    RETURN_IF_ERROR(check_gpu(wanted, index, gpus));
    devices.push_back(fmt::format("cuda:{}", index));
  }
  return devices;
}

}  // namespace

Backend cpu_backend(Isa isa) {
  return {.device = host_device(),
          .kernels = cpu_kernels(),
          .isa = isa,
          .numeric_class = isa == Isa::kAmx ? kAmxClass : kCpuClass};
}

absl::Status check_class(std::span<const std::string> devices, bool fast) {
  if (!fast || std::ranges::find(devices, "cpu") == devices.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--fast: devices must be GPUs, found CPUs, which run at full speed without this flag; "
      "leave it out, or use --strategy reduce for less communication");
}

absl::StatusOr<Backend> open_backend(const std::string& device, bool fast) {
  RETURN_IF_ERROR(check_class({&device, 1}, fast));
  if (device == "cpu") return cpu_backend();
  report_to([](const std::string& line) { spdlog::warn(line); });
  std::string problem;
  std::unique_ptr<Device> gpu = open_cuda_device(gpu_index(device), &problem);
  if (gpu == nullptr) return failed_precondition("--device {}: {}", device, problem);
  std::string numeric_class =
      fmt::format("{}@{}", fast ? kCudaFastClass : kCudaExactClass, gpu->kind());
  const bool checks = std::getenv("LOCKSTEP_CHECK_KERNELS") != nullptr;
  const char* graphs = std::getenv("LOCKSTEP_GRAPHS");
  const std::span<const KernelEntry> kernels = cuda_kernels_of(*gpu);
  return Backend{.device = std::move(gpu),
                 .kernels = kernels,
                 .numeric_class = std::move(numeric_class),
                 .memory_fraction = 0.9,
                 .warm_up_rows = {1, 64, INT64_MAX},
                 .check_each_kernel = checks,
                 .graphs = !checks && (graphs == nullptr || std::string_view(graphs) != "off"),
                 .proof_ms = kProofMs};
}

absl::Status check_serves(const Backend& backend, const std::string& numeric_class) {
  if (common_class(numeric_class, backend.numeric_class) == numeric_class) return absl::OkStatus();
  return failed_precondition(
      "the group computes in numeric class {}, this worker in {}; run the same version and the "
      "same --device everywhere",
      printable(numeric_class), backend.numeric_class);
}

Gpus find_gpus() {
  Gpus gpus;
  gpus.devices = cuda_devices(&gpus.problem);
  return gpus;
}

absl::StatusOr<std::vector<std::string>> devices_of_workers(const std::string& wanted, int workers,
                                                            const Gpus& gpus) {
  const std::vector<std::string> processor(workers, "cpu");
  if (wanted == "cpu") return processor;
  if (wanted == "auto") {
    auto devices = gpu_each(wanted, workers, gpus);
    return devices.ok() ? devices : processor;
  }
  const int index = gpu_index(wanted);
  if (wanted != "cuda" && index < 0) {
    return invalid_argument("--device {}: must be auto, cpu, cuda or cuda:N", wanted);
  }
  if (gpus.devices.empty()) {
    return failed_precondition("--device {}: {}; use --device cpu", wanted, gpus.problem);
  }
  if (index < 0) return gpu_each(wanted, workers, gpus);
  RETURN_IF_ERROR(check_gpu(wanted, index, gpus));
  return std::vector<std::string>(workers, wanted);
}

}  // namespace lockstep

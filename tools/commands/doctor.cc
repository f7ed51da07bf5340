// SPDX-License-Identifier: Apache-2.0
// `lockstep doctor`: what this machine has, as the workers would see it.
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/cpu.h"
#include "base/status.h"
#include "base/version.h"
#include "coordinator/model.h"
#include "tools/commands/command.h"
#include "tools/terminal.h"
#include "worker/backend.h"

namespace lockstep {
namespace {

nlohmann::ordered_json gpu_list(const Gpus& gpus) {
  auto list = nlohmann::ordered_json::array();
  for (const CudaDeviceInfo& gpu : gpus.devices) {
    list.push_back({{"name", gpu.name},
                    {"address", gpu.address},
                    {"memory_bytes", gpu.memory_bytes},
                    {"compute_capability", fmt::format("{}.{}", gpu.major, gpu.minor)}});
  }
  return list;
}

void print_gpus(const Gpus& gpus) {
  if (gpus.devices.empty()) fmt::print("GPUs          none: {}\n", gpus.problem);
  for (size_t i = 0; i < gpus.devices.size(); ++i) {
    const CudaDeviceInfo& gpu = gpus.devices[i];
    fmt::print("{:<14}cuda:{}, {}, {}, compute capability {}.{}{}, driver for CUDA {}\n",
               i == 0 ? "GPUs" : "", i, gpu.name, human_bytes(gpu.memory_bytes), gpu.major,
               gpu.minor, gpu.major < kLeastCudaMajor ? " (too old: not used)" : "",
               cuda_driver_version());
  }
}

absl::Status doctor(bool json) {
  const absl::StatusOr<std::filesystem::path> demo = find_model_folder("");
  const Gpus gpus = find_gpus();
  const nlohmann::ordered_json facts = {{"version", kVersion},
                                        {"processor", cpu_model_name()},
                                        {"isa", isa_name(machine_isa())},
                                        {"isa_used", isa_name(best_isa())},
                                        {"cores", sysconf(_SC_NPROCESSORS_ONLN)},
                                        {"usable_cores", usable_cores()},
                                        {"memory_bytes", memory_total_bytes()},
                                        {"memory_free_bytes", memory_free_bytes()},
                                        {"gpus", gpu_list(gpus)},
                                        {"gpu_problem", gpus.problem},
                                        {"cuda_driver", cuda_driver_version()},
                                        {"demo_model", demo.ok() ? demo->string() : ""}};
  if (json) {
    fmt::print("{}\n", facts.dump());
    return absl::OkStatus();
  }
  fmt::print("lockstep      {}\n", kVersion);
  fmt::print("processor     {}\n", cpu_model_name());
  fmt::print("instructions  {} (used: {})\n", isa_name(machine_isa()), isa_name(best_isa()));
  fmt::print("cores         {} usable of {}\n", usable_cores(), sysconf(_SC_NPROCESSORS_ONLN));
  fmt::print("memory        {} free of {}\n", human_bytes(memory_free_bytes()),
             human_bytes(memory_total_bytes()));
  print_gpus(gpus);
  fmt::print("demo model    {}\n", demo.ok() ? demo->string() : message_of(demo.status()));
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<Command> add_doctor(CLI::App& parent) {
  auto command = std::make_shared<Command>();
  auto json = std::make_shared<bool>(false);
  command->app = parent.add_subcommand(
      "doctor", "Prints what this machine has: instruction sets, cores, memory, GPUs.");
  command->app->add_flag("--json", *json, "One JSON object on one line");
  command->run = [json](Interrupt&) { return doctor(*json); };
  return command;
}

}  // namespace lockstep

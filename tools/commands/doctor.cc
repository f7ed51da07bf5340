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

namespace lockstep {
namespace {

// Devices that NVIDIA's driver shows; no worker of this version uses them.
int nvidia_devices() {
  int count = 0;
  std::error_code error;
  while (std::filesystem::exists(fmt::format("/dev/nvidia{}", count), error)) ++count;
  return count;
}

absl::Status doctor(bool json) {
  const absl::StatusOr<std::filesystem::path> demo = find_model_folder("");
  const nlohmann::ordered_json facts = {{"version", kVersion},
                                        {"processor", cpu_model_name()},
                                        {"isa", isa_name(machine_isa())},
                                        {"isa_used", isa_name(best_isa())},
                                        {"cores", sysconf(_SC_NPROCESSORS_ONLN)},
                                        {"usable_cores", usable_cores()},
                                        {"memory_bytes", memory_total_bytes()},
                                        {"memory_free_bytes", memory_free_bytes()},
                                        {"nvidia_gpus", nvidia_devices()},
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
  fmt::print("GPUs          {}\n", nvidia_devices() == 0
                                       ? std::string("none")
                                       : fmt::format("{} (not used: workers of this version run on "
                                                     "CPUs)",
                                                     nvidia_devices()));
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

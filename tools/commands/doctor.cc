// SPDX-License-Identifier: Apache-2.0
// `lockstep doctor`: what this machine has, as the workers would see it.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/cpu.h"
#include "base/status.h"
#include "base/topology.h"
#include "base/version.h"
#include "coordinator/model.h"
#include "tools/commands/command.h"
#include "tools/terminal.h"
#include "worker/backend.h"
#include "worker/memory.h"

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
               gpu.minor, gpu.major < kMinCudaMajor ? " (too old: not used)" : "",
               cuda_driver_version());
  }
}

struct MemoryNode {
  int id = 0;
  std::vector<int> processors;
};

// Memory nodes that usable processors belong to.
std::vector<MemoryNode> memory_nodes() {
  std::vector<MemoryNode> nodes;
  for (const Processor& processor : locate_processors(thread_processors())) {
    if (nodes.empty() || nodes.back().id != processor.node) nodes.push_back({processor.node, {}});
    nodes.back().processors.push_back(processor.id);
  }
  for (MemoryNode& node : nodes) std::sort(node.processors.begin(), node.processors.end());
  return nodes;
}

// What this process has in huge pages.
int64_t huge_bytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("AnonHugePages:")) return 1024 * std::strtoll(&line[14], nullptr, 10);
  }
  return 0;
}

// How much of some memory, allocated as weights are, is in huge pages: they may be off, or memory
// may be fragmented.
double huge_share() {
  constexpr int64_t kBytes = int64_t{64} << 20;
  const int64_t before = huge_bytes();
  const std::unique_ptr<Device> device = host_device();
  const absl::StatusOr<DeviceMemory> memory = allocate_memory(*device, kBytes, "a trial");
  if (!memory.ok()) return 0;
  for (int64_t at = 0; at < kBytes; at += 4096) memory->data()[at] = std::byte{1};
  return static_cast<double>(huge_bytes() - before) / kBytes;
}

std::string huge_pages_text(const std::string& setting, double share) {
  std::string text =
      fmt::format("{}, {:.0f} % of a trial", setting.empty() ? "unknown" : setting, 100 * share);
  if (setting == "never") {
    text +=
        ": weights are read 10 to 15 % slower; write madvise to "
        "/sys/kernel/mm/transparent_hugepage/enabled";
  } else if (share < 0.9) {
    text += ": memory is fragmented, or the container forbids them; weights are read slower";
  }
  return text;
}

std::string nodes_text(const std::vector<MemoryNode>& nodes) {
  std::string text = fmt::format("{}", nodes.size());
  for (const MemoryNode& node : nodes) {
    text += fmt::format("{}{}: processors {}", &node == nodes.data() ? " (" : "; ", node.id,
                        processors_text(node.processors));
  }
  return text + (nodes.empty() ? "" : ")");
}

nlohmann::ordered_json nodes_json(const std::vector<MemoryNode>& nodes) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const MemoryNode& node : nodes) {
    json.push_back({{"node", node.id}, {"processors", processors_text(node.processors)}});
  }
  return json;
}

absl::Status doctor(bool json) {
  const std::vector<MemoryNode> nodes = memory_nodes();
  const Caches caches = cpu_caches();
  const std::string huge_setting = huge_pages();
  const double share = huge_share();
  const absl::StatusOr<std::filesystem::path> demo = find_model_folder("");
  const Gpus gpus = find_gpus();
  const nlohmann::ordered_json facts = {{"version", kVersion},
                                        {"processor", cpu_model_name()},
                                        {"isa", isa_name(machine_isa())},
                                        {"isa_used", isa_name(best_isa())},
                                        {"cores", sysconf(_SC_NPROCESSORS_ONLN)},
                                        {"usable_cores", usable_cores()},
                                        {"memory_nodes", nodes_json(nodes)},
                                        {"l2_bytes", caches.l2_bytes},
                                        {"l3_bytes", caches.l3_bytes},
                                        {"huge_pages", huge_setting},
                                        {"huge_pages_share", share},
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
  fmt::print("memory nodes  {}\n", nodes_text(nodes));
  fmt::print("caches        L2 {} per core, L3 {}\n", memory_text(caches.l2_bytes),
             memory_text(caches.l3_bytes));
  fmt::print("huge pages    {}\n", huge_pages_text(huge_setting, share));
  print_gpus(gpus);
  fmt::print("demo model    {}\n", demo.ok() ? demo->string() : message_of(demo.status()));
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<Command> add_doctor(CLI::App& parent) {
  auto command = std::make_shared<Command>();
  auto json = std::make_shared<bool>(false);
  command->app = parent.add_subcommand(
      "doctor",
      "Prints what this machine has: instruction sets, cores, caches, memory, huge pages, GPUs.");
  command->app->add_flag("--json", *json, "One JSON object on one line");
  command->run = [json](Interrupt&) { return doctor(*json); };
  return command;
}

}  // namespace lockstep

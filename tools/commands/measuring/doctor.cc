// SPDX-License-Identifier: Apache-2.0
// `lockstep doctor`: this machine's hardware, as workers see it.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/status.h"
#include "base/system/busy_sibling.h"
#include "base/system/cpu.h"
#include "base/system/topology.h"
#include "base/version.h"
#include "coordinator/model/model_folder.h"
#include "tools/commands/command.h"
#include "tools/terminal.h"
#include "worker/backend.h"
#include "worker/host/memory.h"
#include "worker/kernel_choice/proof_cache.h"
#include "worker/weights/packed_cache.h"

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

// The memory nodes of the usable processors.
std::vector<MemoryNode> memory_nodes() {
  std::vector<MemoryNode> nodes;
  for (const Processor& processor : locate_processors(thread_processors())) {
    if (nodes.empty() || nodes.back().id != processor.node) nodes.push_back({processor.node, {}});
    nodes.back().processors.push_back(processor.id);
  }
  for (MemoryNode& node : nodes) std::sort(node.processors.begin(), node.processors.end());
  return nodes;
}

// The bytes of this process in huge pages.
int64_t huge_bytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("AnonHugePages:")) return 1024 * std::strtoll(&line[14], nullptr, 10);
  }
  return 0;
}

// The part of newly allocated memory that is in huge pages. It is below 1 if huge pages are off or
// memory is fragmented.
double huge_share() {
  constexpr int64_t kBytes = int64_t{64} << 20;
  const int64_t before = huge_bytes();
  const std::unique_ptr<Device> device = host_device();
  const absl::StatusOr<DeviceMemory> memory = allocate_memory(*device, kBytes, "a trial");
  if (!memory.ok()) return 0;
  for (int64_t at = 0; at < kBytes; at += 4096) memory->data()[at] = std::byte{1};
  return static_cast<double>(huge_bytes() - before) / kBytes;
}

// The number of cores, and whether the other hardware thread of this thread's core is busy.
std::string cores_text(double adds) {
  std::string text = fmt::format("{} usable of {}", usable_cores(), sysconf(_SC_NPROCESSORS_ONLN));
  if (adds > 0) text += fmt::format(", {:.1f} additions per cycle", adds);
  if (adds > 0 && adds < kMinAddsAlone) {
    text += ": the core's other hardware thread is busy, so kernels run at about half their speed";
  }
  return text;
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

nlohmann::ordered_json proof_json(const ProofRecord& record) {
  auto trials = nlohmann::ordered_json::array();
  for (const ProofRecord::Line& line : record.lines) {
    auto rows = nlohmann::ordered_json::array();
    for (const TriedRows& tried : line.trial.rows) {
      rows.push_back({{"rows", tried.rows},
                      {"cols", tried.cols},
                      {"ns", tried.ns},
                      {"error_of_bound", tried.error}});
    }
    trials.push_back({{"shape", line.shape},
                      {"kernel", line.trial.kernel},
                      {"proven", line.trial.verdict == Verdict::kProven},
                      {"chosen", line.chosen},
                      {"problem", line.trial.problem},
                      {"rows", std::move(rows)}});
  }
  return {{"device", record.facts.device},
          {"driver", record.facts.driver},
          {"numeric_class", record.facts.numeric_class},
          {"build", record.facts.build},
          {"most_rows", record.facts.max_rows},
          {"trials", std::move(trials)}};
}

// A line for each number of rows; * marks the kernel that is used.
void print_proof(const ProofRecord& record) {
  fmt::print("{}, driver for CUDA {}, {}, steps of up to {} rows\n", printable(record.facts.device),
             printable(record.facts.driver), printable(record.facts.numeric_class),
             record.facts.max_rows);
  std::string shape;
  for (const ProofRecord::Line& line : record.lines) {
    if (line.shape != shape) fmt::print("  {}\n", printable(line.shape));
    shape = line.shape;
    const bool proven = line.trial.verdict == Verdict::kProven;
    fmt::print("  {} {:<28} {}\n", line.chosen ? '*' : ' ', printable(line.trial.kernel),
               proven                       ? "proven"
               : line.trial.problem.empty() ? "not proven yet"
                                            : printable(line.trial.problem));
    for (const TriedRows& tried : line.trial.rows) {
      fmt::print("      {:>5} rows, {:>6} columns  {:>10}  {:8.2g} of the bound\n", tried.rows,
                 tried.cols, tried.ns > 0 ? fmt::format("{:.1f} us", 1e-3 * tried.ns) : "-",
                 tried.error);
    }
  }
}

// The proofs of workers on this machine's GPUs, see worker/kernel_choice/proof.h.
absl::Status show_proofs(const std::string& cache, bool json) {
  const std::string folder = packed_cache_options(cache, kPackedCacheLimit).folder;
  const std::vector<ProofRecord> records =
      folder.empty() ? std::vector<ProofRecord>() : read_proofs(folder);
  auto list = nlohmann::ordered_json::array();
  for (const ProofRecord& record : records) {
    json ? list.push_back(proof_json(record)) : print_proof(record);
  }
  if (json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"proofs", std::move(list)}}.dump());
  } else if (records.empty()) {
    fmt::print(
        "no kernels were proven yet: a worker on a GPU proves them when it loads a model; the "
        "results are kept in {}\n",
        folder.empty() ? "no folder" : folder);
  }
  return absl::OkStatus();
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
  const double share = huge_share(), adds = adds_per_cycle();
  const absl::StatusOr<std::filesystem::path> demo = find_model_folder("");
  const Gpus gpus = find_gpus();
  const nlohmann::ordered_json facts = {{"version", kVersion},
                                        {"processor", cpu_model_name()},
                                        {"isa", isa_name(machine_isa())},
                                        {"isa_used", isa_name(best_isa())},
                                        {"cores", sysconf(_SC_NPROCESSORS_ONLN)},
                                        {"usable_cores", usable_cores()},
                                        {"adds_per_cycle", adds},
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
  fmt::print("cores         {}\n", cores_text(adds));
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
  auto json = std::make_shared<bool>(false), gpu = std::make_shared<bool>(false);
  auto cache = std::make_shared<std::string>("auto");
  command->app = parent.add_subcommand(
      "doctor",
      "Prints this machine's hardware: instruction sets, cores, caches, memory, huge pages, GPUs.");
  add_flags(
      *command->app,
      {{"--json", json.get(), "One JSON object on one line"},
       {"--gpu", gpu.get(),
        "Print the kernels that workers on GPUs have tested: each kernel's time, and its largest "
        "error divided by the allowed error; * marks kernels that are used"},
       {"--weight-cache", cache.get(), "With --gpu: the value of the workers' flag --weight-cache",
        FlagValues{.form = "FOLDER|auto|off"}}});
  command->run = [json, gpu, cache](Interrupt&) {
    return *gpu ? show_proofs(*cache, *json) : doctor(*json);
  };
  return command;
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// What the subcommands of `lockstep` share. Each adds its flags to the application and leaves in
// `Command::run` what is to be done once they are parsed.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/tls/tls_files.h"
#include "coordinator/service.h"
#include "tools/interrupt.h"
#include "worker/weights/packed_cache.h"

namespace lockstep {

struct Command {
  CLI::App* app = nullptr;
  std::function<absl::Status(Interrupt&)> run;
  int exit_code = 0;  // Where a command ends with another code than its status says.
};

std::shared_ptr<Command> add_serve(CLI::App& parent);
std::shared_ptr<Command> add_worker(CLI::App& parent);
std::shared_ptr<Command> add_generate(CLI::App& parent);
std::shared_ptr<Command> add_chat(CLI::App& parent);
std::shared_ptr<Command> add_tokenize(CLI::App& parent);
std::shared_ptr<Command> add_template(CLI::App& parent);
std::shared_ptr<Command> add_bench(CLI::App& parent);
std::shared_ptr<Command> add_bench_serve(CLI::App& parent);  // A subcommand of bench.
std::shared_ptr<Command> add_plan(CLI::App& parent);
std::shared_ptr<Command> add_inspect(CLI::App& parent);
std::shared_ptr<Command> add_quantize(CLI::App& parent);
std::shared_ptr<Command> add_compare(CLI::App& parent);
std::shared_ptr<Command> add_workers(CLI::App& parent);
std::shared_ptr<Command> add_doctor(CLI::App& parent);
std::shared_ptr<Command> add_verify(CLI::App& parent);

// The chat template, of commands that render conversations.
struct ChatFlags {
  std::string choice;
  std::vector<std::string> variables;

  void add_to(CLI::App& app);
};

// Prompt tokens of a step where --prefill-chunk is auto. More rows keep a GPU's tensor cores busy.
inline constexpr int64_t kChunk = 512;
inline constexpr int64_t kGpuChunk = 4096;

// Opens it, and says on stderr what a user should know of its checkpoint.
absl::StatusOr<std::unique_ptr<Model>> open_model(const ModelOptions& options);

// MODEL and how it is read and cut: of every command that opens one.
struct ModelFlags {
  std::string path;
  std::string dtype = "auto";
  std::string quantize;
  std::string kv_dtype = "auto";
  std::string embedding = "memory";
  std::string strategy = {};  // "": gather, or reduce with `fast`.
  bool fast = false;
  std::string random_weights;
  std::vector<std::string> ignore_config;
  int64_t max_context = 0;
  std::string prefill_chunk = "auto";
  int64_t max_running = 64;
  bool takes_prompt_embeds = false;
  std::vector<std::string> served_names;  // None: as its folder is called.
  RequestDefaults defaults;
  ChatFlags chat;  // Added by those who need it.

  void add_to(CLI::App& app);
  // What --prefill-chunk says, or what is given where that is auto.
  absl::StatusOr<int64_t> chunk(int64_t automatic) const;
  absl::StatusOr<std::unique_ptr<Model>> open(WeightFiles files = WeightFiles::kNeeded,
                                              int64_t automatic_chunk = kChunk) const;
};

// Where a worker keeps its weights packed: of every command that starts workers, or is one.
struct WeightCacheFlags {
  std::string choice = "auto";
  int64_t limit_bytes = kPackedCacheLimit;

  void add_to(CLI::App& app);
};

// The group that runs it: of serve, generate and bench.
struct GroupFlags {
  int workers = 1;
  int threads = 0;  // 0: usable cores / workers.
  bool no_pin = false;
  std::string device = "auto";
  double memory_fraction = 0;
  int64_t kv_memory_bytes = 0;
  int64_t silent_ms = 1'000;
  int64_t stuck_ms = 10'000;
  int64_t grace_ms = 1'500;
  int min_workers = 1;
  int64_t regrow_seconds = 60;
  std::vector<double> speeds = {};
  WeightCacheFlags weight_cache;
  std::string log_level = "warning";

  void add_to(CLI::App& app);
  // Of workers that this host would start.
  int64_t automatic_chunk() const;
  // `launches`: the workers are started here, and their devices are this machine's.
  absl::StatusOr<ServiceOptions> service_options(const ModelFlags& model,
                                                 bool launches = true) const;
};

// Of this process, by --log-level's names.
absl::Status set_log_level(const std::string& name);

// --log-format, of those that run for long.
void add_log_format(CLI::App& app, std::string& format);

// --cluster-cert, --cluster-key and --cluster-ca, of coordinator and worker.
void add_cluster_tls(CLI::App& app, TlsFiles& tls);
absl::Status check_cluster_tls(const TlsFiles& tls);

// --memory-fraction, of every command that starts a worker or is one.
void add_memory_fraction(CLI::App& app, double& fraction);

// Lets each option of the command be given by the environment too: --drain-seconds by
// LOCKSTEP_DRAIN_SECONDS, MODEL by LOCKSTEP_MODEL. The line wins; a variable that is empty is none.
// Call it when all options are there. Other commands do not look at these variables.
void read_environment(CLI::App& app);

// Starts the group and waits until it is ready, with a progress bar on a terminal. kCancelled on
// Ctrl-C.
absl::StatusOr<std::unique_ptr<InferenceService>> start_service(const Model& model,
                                                                ServiceOptions options,
                                                                Interrupt& interrupt);

// 0, 2 for what the user can fix, 1 for a fault of ours.
int exit_code_of(const absl::Status& status);

}  // namespace lockstep

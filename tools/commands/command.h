// SPDX-License-Identifier: Apache-2.0
// What the subcommands of `lockstep` share. Each adds its flags to the application and leaves in
// `Command::run` what is to be done once they are parsed.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/service.h"
#include "tools/commands/flag_checks.h"
#include "tools/interrupt.h"
#include "worker/options.h"

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

// Opens it, and says on stderr what a user should know of its checkpoint.
absl::StatusOr<std::unique_ptr<Model>> open_model(const ModelOptions& options);

// MODEL, how it is read and cut, and the group of workers that runs it.
struct RunOptions {
  ModelOptions model;
  ServiceOptions service;
  WorkerProcessOptions worker;  // Each local worker has these.
  std::string strategy;         // "": gather, or reduce with worker.fast.
  bool no_pin = false;

  RunOptions();
  // Every command that opens a model has these.
  std::vector<Flag> model_flags();
  // Commands that run it have these, too.
  std::vector<Flag> group_flags();

  absl::StatusOr<std::unique_ptr<Model>> open(WeightFiles files = WeightFiles::kNeeded) const;
  // --prefill-chunk; where it is auto, the chunk for the devices of local workers.
  int64_t prefill_chunk() const;
  // The same for --threads and --device.
  int threads() const;
  absl::StatusOr<std::vector<std::string>> devices() const;
  // `service`, complete.
  absl::StatusOr<ServiceOptions> service_options() const;
};

void add_chat_flags(CLI::App& app, ModelOptions& model);

// Of this process, by --log-level's names.
absl::Status set_log_level(const std::string& name);

absl::Status check_cluster_tls(TlsFiles tls);

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

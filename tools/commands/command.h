// SPDX-License-Identifier: Apache-2.0
// Code that the subcommands of `lockstep` share. Each subcommand adds its flags to the application
// and sets `Command::run`, which main() calls after parsing.
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
  int exit_code = 0;  // The exit code if run() returns OK.
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
std::shared_ptr<Command> add_completion(CLI::App& parent);

// Opens the model and prints warnings about its checkpoint on stderr.
absl::StatusOr<std::unique_ptr<Model>> open_model(const ModelOptions& options);

// The default number of threads for all workers on this machine.
int threads_of_machine();

// The model, its options, and the group of workers that runs it.
struct RunOptions {
  ModelOptions model;
  ServiceOptions service;
  WorkerProcessOptions worker;  // For each local worker.
  std::string strategy;         // "": gather, or reduce with worker.fast.
  bool no_pin = false;

  RunOptions();
  // Flags of every command that opens a model.
  std::vector<Flag> model_flags();
  // Additional flags of commands that run the model.
  std::vector<Flag> group_flags();

  absl::StatusOr<std::unique_ptr<Model>> open(WeightFiles files = WeightFiles::kNeeded) const;
  // --prefill-chunk; if it is auto, the chunk for the devices of local workers.
  int64_t prefill_chunk() const;
  // threads(): --threads, or each local worker's part of the cores. devices(): --device, as one
  // device per local worker.
  int threads() const;
  absl::StatusOr<std::vector<std::string>> devices() const;
  // `service` with the results of these functions, and the arguments of local workers. Sets the log
  // level.
  absl::StatusOr<ServiceOptions> service_options() const;
};

void add_chat_flags(CLI::App& app, ModelOptions& model);

// Sets this process's log level: debug, info, warning or error.
absl::Status set_log_level(const std::string& name);

absl::Status check_cluster_tls(TlsFiles tls);

// Lets the environment set each option of the command, except hidden ones: LOCKSTEP_DRAIN_SECONDS
// sets --drain-seconds, LOCKSTEP_MODEL sets MODEL. The command line has precedence; an empty
// variable is ignored. Call it after all options are added. Other commands do not read these
// variables.
void read_environment(CLI::App& app);

// From now on, the environment sets no option of the command.
void ignore_environment(CLI::App& app);

// Starts the group and waits until it is ready, with a progress bar on a terminal. kCancelled on
// Ctrl-C.
absl::StatusOr<std::unique_ptr<InferenceService>> start_service(const Model& model,
                                                                ServiceOptions options,
                                                                Interrupt& interrupt);

// 0 for success, 2 for errors that the user can fix, 130 for an interruption, 1 for our own faults.
int exit_code_of(const absl::Status& status);

}  // namespace lockstep

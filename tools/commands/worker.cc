// SPDX-License-Identifier: Apache-2.0
// `lockstep worker`: one rank, dialled in to a coordinator.
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdlib>

#include "base/cpu.h"
#include "base/status.h"
#include "tools/commands/command.h"
#include "worker/main.h"

namespace lockstep {

std::shared_ptr<Command> add_worker(CLI::App& parent) {
  auto command = std::make_shared<Command>();
  auto options = std::make_shared<WorkerMainOptions>();
  auto log_level = std::make_shared<std::string>("info");
  command->app = parent.add_subcommand(
      "worker",
      "One worker process: joins the coordinator, is given a slice of the model and runs it.\n"
      "The join token is read from LOCKSTEP_JOIN_TOKEN.");
  options->threads = 0;
  command->app->add_option("--coordinator", options->coordinator, "HOST:PORT of `lockstep serve`")
      ->required();
  command->app->add_option("--threads", options->threads, "Threads (default: all usable cores)");
  command->app->add_option("--rank", options->preferred_rank,
                           "Rank to ask for (default: any that is free)");
  command->app->add_option("--parent-pid", options->parent_pid)->group("");
  command->app->add_option("--log-level", *log_level, "debug, info, warning or error")
      ->capture_default_str();
  command->run = [options, log_level,
                  shared = command.get()](Interrupt& interrupt) -> absl::Status {
    interrupt.on_signal([] { _exit(0); });  // Nothing here outlives the process.
    if (options->threads < 0 || options->threads > 1024) {
      return invalid_argument("--threads {}: wanted 1 to 1024", options->threads);
    }
    if (options->threads == 0) options->threads = usable_cores();
    const char* token = std::getenv("LOCKSTEP_JOIN_TOKEN");
    options->token = token != nullptr ? token : "";
    spdlog::set_level(spdlog::level::from_str(*log_level));
    shared->exit_code = worker_main(*options);
    return absl::OkStatus();
  };
  return command;
}

}  // namespace lockstep

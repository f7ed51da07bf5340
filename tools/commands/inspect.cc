// SPDX-License-Identifier: Apache-2.0
// `lockstep inspect`: a model's graph after each pass, and the program that a rank would run.
#include "base/status.h"
#include "sharding/text.h"
#include "tools/commands/command.h"
#include "tools/commands/fold_layers.h"

namespace lockstep {
namespace {

struct InspectFlags {
  ModelFlags model;
  int workers = 2;
  int rank = 0;
  std::string stage;
  bool dot = false;
  bool all = false;
};

absl::Status inspect(const InspectFlags& flags) {
  if (flags.workers < 1) return invalid_argument("--workers {}: wanted 1 or more", flags.workers);
  if (flags.rank < 0 || flags.rank >= flags.workers) {
    return invalid_argument("--rank {}: wanted 0 to {}", flags.rank, flags.workers - 1);
  }
  if (flags.dot && !flags.stage.empty()) {
    return invalid_argument("--stage {}: --dot draws the rank's last graph: leave one of them out",
                            flags.stage);
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, flags.model.open(WeightFiles::kOptional));
  ASSIGN_OR_RETURN(std::vector<WorkerFacts> workers, alike_workers(flags.workers));
  CompileOptions options = model->compile_options(std::move(workers));
  if (flags.dot) {
    ASSIGN_OR_RETURN(const std::vector<Graph> graphs, compile_graphs(model->graph(), options));
    fmt::print("{}", graph_dot(graphs[flags.rank]));
    return absl::OkStatus();
  }
  options.trace_rank = flags.rank;
  std::string stages;
  bool found = false;
  options.trace = [&](const std::string& stage, const std::string& text) {
    stages += (stages.empty() ? "" : ", ") + stage;
    if (!flags.stage.empty() && flags.stage != stage) return;
    found = true;
    fmt::print("=== {}\n{}\n", stage, flags.all ? text : fold_layers(text));
  };
  RETURN_IF_ERROR(compile(model->graph(), options).status());
  if (!found) {
    return invalid_argument("--stage {}: wanted one of {}", flags.stage, stages);
  }
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<Command> add_inspect(CLI::App& parent) {
  auto command = std::make_shared<Command>();
  auto flags = std::make_shared<InspectFlags>();
  command->app = parent.add_subcommand(
      "inspect",
      "Prints the graph of MODEL after each pass, and the program of one rank; starts nothing.\n"
      "config.json alone is enough: weights that are there only say in which types they are.");
  flags->model.add_to(*command->app);
  command->app->add_option("--workers", flags->workers, "Workers to compile for")
      ->capture_default_str();
  command->app->add_option("--rank", flags->rank, "The rank that is shown")->capture_default_str();
  command->app->add_option("--stage", flags->stage, "Only this stage, e.g. program");
  command->app->add_flag("--all", flags->all, "Every layer (default: layers that are alike once)");
  command->app->add_flag("--dot", flags->dot, "The rank's graph in Graphviz' language");
  command->run = [flags](Interrupt&) { return inspect(*flags); };
  return command;
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// `lockstep inspect`: a model's graph after each pass, and a rank's program.
#include <fstream>

#include "base/json.h"
#include "base/status.h"
#include "models/summary.h"
#include "sharding/layout/value_parts.h"
#include "sharding/text.h"
#include "tools/commands/command.h"
#include "tools/commands/models/fold_layers.h"
#include "tools/inspect/program_page.h"
#include "tools/terminal.h"
#include "worker/steps/executor.h"

namespace lockstep {
namespace {

struct InspectFlags {
  InspectFlags() { run.worker.device = "cpu"; }

  RunOptions run;
  int workers = 2;
  int rank = 0;
  std::string stage;
  std::string html;
  bool dot = false;
  bool all = false;
  bool json = false;
};

absl::Status check_flags(const InspectFlags& flags) {
  if (flags.rank < 0 || flags.rank >= flags.workers) {
    return invalid_argument("--rank: must be 0 to {1}, found {0}", flags.rank, flags.workers - 1);
  }
  if (flags.dot && !flags.stage.empty()) {
    return invalid_argument(
        "--stage {}: cannot be combined with --dot, which draws the rank's last graph; remove one "
        "of them",
        flags.stage);
  }
  if (flags.json && (flags.dot || !flags.stage.empty() || !flags.html.empty())) {
    return invalid_argument(
        "--json: cannot be combined with {}, because it shows the model before sharding; remove "
        "one of them",
        flags.dot            ? "--dot"
        : flags.html.empty() ? "--stage"
                             : "--html");
  }
  if (flags.html.empty() || (flags.stage.empty() && !flags.dot)) return absl::OkStatus();
  return invalid_argument(
      "--html {}: cannot be combined with {}, because it shows the rank's program; remove one of "
      "them",
      flags.html, flags.dot ? "--dot" : "--stage");
}

// "1,023"
std::string with_commas(int64_t number) {
  std::string digits = std::to_string(number);
  for (auto at = static_cast<int64_t>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<size_t>(at), ",");
  }
  return digits;
}

// The costs of a step with rows of one sequence and the last row's logits.
std::vector<KernelCost> costs_of(const program::Program& program, const Bindings& bindings,
                                 int64_t first_position, int64_t rows) {
  const StepSequence sequence = {.rows = rows, .first_position = first_position};
  const StepView step = {
      .rows = rows, .sequences = &sequence, .sequence_count = 1, .output_count = 1};
  return instruction_costs(program, bindings, step);
}

// A JSON object on one line. It has the inverse frequencies of the columns that rotate.
std::string summary_json(const Model& model) {
  const Summary summary = summarize(model.graph());
  OrderedJson json = {{"architecture", model.config().architecture},
                      {"layers", model.config().layers},
                      {"context", model.max_context()},
                      {"parameters", summary.parameters},
                      {"rotary", OrderedJson::array()},
                      {"windows", OrderedJson::object()},
                      {"tensors", summary.tensors}};
  for (const RotarySummary& table : summary.rotary) {
    json["rotary"].push_back({{"count", table.count},
                              {"first", table.first},
                              {"last", table.last},
                              {"factor", table.factor}});
  }
  for (const auto& [layer, window] : summary.windows) {
    json["windows"][std::to_string(layer)] = window;
  }
  return write_json(json);
}

absl::Status write_page(const InspectFlags& flags, const Model& model,
                        const CompileOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<program::Program> programs, compile(model.graph(), options));
  ASSIGN_OR_RETURN(const PlanTable plan, plan_table(model.graph(), options, programs));
  ASSIGN_OR_RETURN(const std::vector<ValueParts> parts, value_parts(model.graph(), options));
  const auto rank = static_cast<size_t>(flags.rank);
  const program::Program& program = programs[rank];
  ASSIGN_OR_RETURN(const Bindings bindings, bind(program, cpu_backend()));
  const int64_t context = std::min<int64_t>(1024, model.max_context());
  const int64_t rows = std::min<int64_t>(program.limits().rows(), std::min<int64_t>(512, context));
  InspectedProgram inspected{
      .program = &program, .parts = &parts[rank], .totals = plan.rows[rank], .steps = {}};
  inspected.steps.push_back({fmt::format("one token after {}", with_commas(context - 1)),
                             costs_of(program, bindings, context - 1, 1)});
  inspected.steps.push_back(
      {fmt::format("a prompt of {}", with_commas(rows)), costs_of(program, bindings, 0, rows)});
  std::ofstream file(flags.html, std::ios::binary);
  file << program_page(inspected);
  file.close();
  if (file.fail()) return invalid_argument("--html {}: it cannot be written", flags.html);
  say(fmt::format("lockstep: open {} in a browser", flags.html));
  return absl::OkStatus();
}

absl::Status inspect(const InspectFlags& flags) {
  RETURN_IF_ERROR(check_flags(flags));
  ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, flags.run.open(WeightFiles::kOptional));
  if (flags.json) {
    fmt::print("{}\n", summary_json(*model));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(std::vector<WorkerFacts> workers, alike_workers(flags.workers));
  CompileOptions options = model->compile_options(std::move(workers));
  if (!flags.html.empty()) return write_page(flags, *model, options);
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
    return invalid_argument("--stage: must be one of {1}, found {0}", flags.stage, stages);
  }
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<Command> add_inspect(CLI::App& parent) {
  auto command = std::make_shared<Command>();
  auto flags = std::make_shared<InspectFlags>();
  command->app = parent.add_subcommand(
      "inspect",
      "Prints the graph of MODEL after each pass, and the program of one rank; starts no "
      "worker.\nMODEL needs only config.json; if it also has weights, inspect uses their "
      "types.\n--html writes an interactive page. It shows the layers, and for every operator its "
      "shapes, layouts,\nbytes, arithmetic, and its weights with the parts of the checkpoint from "
      "which they are read:\n\n  lockstep inspect MODEL --workers 4 --rank 1 --html rank1.html");
  add_flags(*command->app, flags->run.model_flags());
  add_flags(
      *command->app,
      {{"--workers", &flags->workers, "The number of workers to compile for", FlagValues{.min = 1}},
       {"--rank", &flags->rank, "The rank that is shown (default: 0)"},
       {"--stage", &flags->stage, "Print only this stage, e.g. program"},
       {"--html", &flags->html,
        "Write the rank's program to this file, as a page for a browser; the page needs no network",
        FlagValues{.form = "FILE"}},
       {"--all", &flags->all, "Print every layer (default: equal layers are printed once)"},
       {"--json", &flags->json,
        "Print one JSON object on one line, which describes the model: parameters, tensors and "
        "their shapes, "
        "rotary tables, and attention windows by layer"},
       {"--dot", &flags->dot, "Print the rank's graph in Graphviz' language"}});
  command->run = [flags](Interrupt&) { return inspect(*flags); };
  return command;
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// `lockstep plan`: the slices and bytes that each rank would hold. It starts no worker.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/status.h"
#include "models/summary.h"
#include "sharding/cost.h"
#include "tools/commands/command.h"
#include "tools/terminal.h"

namespace lockstep {
namespace {

struct PlanFlags {
  PlanFlags() { run.worker.device = "cpu"; }

  RunOptions run;
  int workers = 2;
  int hosts = 1;
  std::vector<double> speeds;
  bool json = false;
};

std::string plan_json(const Model& model, const PlanTable& table,
                      const std::vector<PlanHost>& hosts) {
  nlohmann::ordered_json json = {{"model", table.model},
                                 {"architecture", model.config().architecture},
                                 {"layers", model.config().layers},
                                 {"hidden_size", model.config().hidden_size},
                                 {"context", model.max_context()},
                                 {"parameters", summarize(model.graph()).parameters},
                                 {"strategy", strategy_name(table.strategy)},
                                 {"kv_dtype", dtype_name(table.kv_dtype)}};
  for (const PlanRow& row : table.rows) {
    nlohmann::ordered_json rank = {{"rank", row.rank},
                                   {"weight_bytes", row.weight_bytes},
                                   {"kv_bytes_per_token", row.kv_bytes_per_token},
                                   {"block_bytes_per_sequence", row.block_bytes},
                                   {"arena_bytes", row.arena_bytes},
                                   {"all_gathers", row.gathers},
                                   {"all_reduces", row.reduces},
                                   {"collective_bytes_per_token", row.collective_bytes_per_token}};
    for (int axis = 1; axis < kAxisCount; ++axis) {
      rank[axis_name(static_cast<Axis>(axis))] = {row.columns[axis].begin, row.columns[axis].end};
    }
    json["ranks"].push_back(std::move(rank));
  }
  for (const PlanHost& host : hosts) {
    json["hosts"].push_back({{"ranks", {host.first_rank, host.end_rank}},
                             {"sent_bytes_per_token", host.sent_bytes_per_token},
                             {"received_bytes_per_token", host.received_bytes_per_token}});
  }
  return json.dump();
}

// Shows how config.json was read: a wrong size changes the number of parameters.
std::string model_text(const Model& model) {
  const Config& c = model.config();
  std::string text = fmt::format("{}: {} layers of {} columns, {} heads of {}", c.architecture,
                                 c.layers, c.hidden_size, c.heads, c.head_dim);
  if (c.kv_heads != c.heads) text += fmt::format(" ({} of keys and values)", c.kv_heads);
  text += fmt::format(", MLP of {}", c.intermediate_size);
  if (c.experts.count > 0) {
    text += fmt::format(", {} experts of {} ({} chosen)", c.experts.count, c.experts.size,
                        c.experts.chosen);
  }
  const auto parameters = static_cast<double>(summarize(model.graph()).parameters);
  const bool billions = parameters >= 1e8;
  return text + fmt::format(", {} tokens, context of {}, {:.3f} {} parameters\n", c.vocab_size,
                            model.max_context(), parameters / (billions ? 1e9 : 1e6),
                            billions ? "billion" : "million");
}

// Columns as "0-63", both ends included; "-" if a rank has none.
std::string columns_text(Range columns) {
  if (columns.begin == columns.end) return "-";
  return fmt::format("{}-{}", columns.begin, columns.end - 1);
}

// The axes that the model has.
std::vector<Axis> axes_of(const PlanTable& table) {
  std::vector<Axis> axes;
  for (int axis = 1; axis < kAxisCount; ++axis) {
    const bool has = std::any_of(table.rows.begin(), table.rows.end(),
                                 [&](const PlanRow& row) { return row.columns[axis].size() > 0; });
    if (has) axes.push_back(static_cast<Axis>(axis));
  }
  return axes;
}

std::string plan_text(const PlanTable& table) {
  const PlanRow& first = table.rows[0];
  std::string text =
      fmt::format("{} on {} workers, {}: {} all_gather and {} all_reduce per step, KV in {}\n\n",
                  table.model, table.rows.size(), strategy_name(table.strategy), first.gathers,
                  first.reduces, dtype_name(table.kv_dtype));
  text += fmt::format("{:>4}  {:>9}  {:>9}  {:>11}  {:>10}", "rank", "weights", "KV/token",
                      "activations", "sent/token");
  const std::vector<Axis> axes = axes_of(table);
  for (const Axis axis : axes) text += fmt::format("  {:>13}", axis_name(axis));
  for (const PlanRow& row : table.rows) {
    text += fmt::format("\n{:>4}  {:>9}  {:>9}  {:>11}  {:>10}", row.rank,
                        human_bytes(row.weight_bytes), human_bytes(row.kv_bytes_per_token),
                        human_bytes(row.arena_bytes), human_bytes(row.collective_bytes_per_token));
    for (const Axis axis : axes) {
      text += fmt::format("  {:>13}", columns_text(row.columns[static_cast<size_t>(axis)]));
    }
  }
  text += "\n";
  if (first.block_bytes == 0) return text;
  text += "\nIn addition to KV, for each sequence of any length:";
  for (const PlanRow& row : table.rows) {
    text += fmt::format("{} {} on rank {}", row.rank == 0 ? "" : ",", human_bytes(row.block_bytes),
                        row.rank);
  }
  return text + "\n";
}

std::string hosts_text(const std::vector<PlanHost>& hosts) {
  std::string text = fmt::format("\n{:>4}  {:>9}  {:>10}  {:>14}\n", "host", "ranks", "sent/token",
                                 "received/token");
  for (size_t i = 0; i < hosts.size(); ++i) {
    text += fmt::format(
        "{:>4}  {:>9}  {:>10}  {:>14}\n", i, columns_text({hosts[i].first_rank, hosts[i].end_rank}),
        human_bytes(hosts[i].sent_bytes_per_token), human_bytes(hosts[i].received_bytes_per_token));
  }
  return text;
}

absl::Status plan(const PlanFlags& flags) {
  if (flags.hosts < 1 || flags.hosts > flags.workers) {
    return invalid_argument(
        "--hosts: must be 1 to {1}, with at least one worker on each, found {0}", flags.hosts,
        flags.workers);
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, flags.run.open(WeightFiles::kOptional));
  ASSIGN_OR_RETURN(std::vector<WorkerFacts> workers, alike_workers(flags.workers));
  if (!flags.speeds.empty() && flags.speeds.size() != workers.size()) {
    return invalid_argument("--speeds: must be one for each of the {} workers, found {}",
                            workers.size(), flags.speeds.size());
  }
  for (size_t i = 0; i < flags.speeds.size(); ++i) workers[i].speed = flags.speeds[i];
  ASSIGN_OR_RETURN(const std::vector<program::Program> programs, model->compile(workers));
  ASSIGN_OR_RETURN(const PlanTable table,
                   plan_table(model->graph(), model->compile_options(workers), programs));
  const std::vector<PlanHost> hosts = plan_hosts(table, flags.hosts);
  if (flags.json) {
    fmt::print("{}\n", plan_json(*model, table, hosts));
  } else {
    fmt::print("{}{}{}", model_text(*model), plan_text(table),
               hosts.size() > 1 ? hosts_text(hosts) : "");
  }
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<Command> add_plan(CLI::App& parent) {
  auto command = std::make_shared<Command>();
  auto flags = std::make_shared<PlanFlags>();
  command->app = parent.add_subcommand(
      "plan",
      "Prints the slices and the bytes that each worker would hold; starts no worker.\nMODEL needs "
      "only config.json; if it also has weights, plan uses their types.");
  add_flags(*command->app, flags->run.model_flags());
  add_flags(
      *command->app,
      {{"--workers", &flags->workers, "The number of workers to plan for", FlagValues{.min = 1}},
       {"--hosts", &flags->hosts,
        "The number of hosts that share the workers; plan shows the bytes that are sent between "
        "hosts"},
       {"--speeds", &flags->speeds, "Relative speeds of the workers, e.g. 8,8,4 (`worker --speed`)",
        FlagValues{.min = 1e-6, .max = 1e15, .has_commas = true}},
       {"--json", &flags->json, "One JSON object on one line"}});
  command->run = [flags](Interrupt&) { return plan(*flags); };
  return command;
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// simulation --seeds 500            runs 500 seeds from --first on; exit code 1: a seed failed
// simulation --seed 17 --trace      prints what happens with one seed, line by line
// simulation --plants               plants one bug after the other; exit code 1: one is not found
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <iterator>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/simulation/simulation.h"

namespace lockstep::simulation {
namespace {

// If a check of the product fails, the process ends: this prints the seed first.
thread_local uint64_t current_seed = 0;
void on_abort(int) {
  fmt::print("seed {}: a check of the product failed\n", current_seed);
  std::fflush(stdout);
}

struct Flags {
  uint64_t first = 0;
  uint64_t seeds = 500;
  int64_t seed = -1;
  bool trace = false;
  int jobs = 1;
  std::string plant_name = kPlantNames[0];
  bool plants = false;
  Plant plant = Plant::kNone;
};

// The result of all seeds: the counts, and the lowest failing seed with the promise that it broke.
struct Outcome {
  Tally tally;
  std::string failure;
  uint64_t failing_seed = 0;
};

Outcome run_all(const Flags& flags) {
  Outcome outcome;
  std::mutex mutex;
  std::atomic<uint64_t> next = flags.first;
  std::atomic<bool> failed = false;
  const auto work = [&] {
    Tally tally;
    while (!failed) {
      const uint64_t seed = next++;
      if (seed >= flags.first + flags.seeds) break;
      current_seed = seed;
      Simulation simulation(seed, flags.trace, flags.plant);
      const std::string failure = simulation.run();
      simulation.add_to(&tally);
      if (failure.empty()) continue;
      const std::scoped_lock lock(mutex);
      if (!outcome.failure.empty() && outcome.failing_seed < seed) continue;
      outcome.failure = failure;
      outcome.failing_seed = seed;
      failed = true;
    }
    const std::scoped_lock lock(mutex);
    outcome.tally += tally;
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < flags.jobs; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  return outcome;
}

void print(const Flags& flags, const Tally& tally) {
  fmt::print(
      "seeds {} to {}: {} requests, {} served in full, {} tokens, {} groups, {} lost, {} "
      "preemptions, {} tokens from the prefix cache, {} draws from all logits, {} drains, {} "
      "requests "
      "struck out\n",
      flags.first, flags.first + flags.seeds - 1, tally.requests, tally.served, tally.tokens,
      tally.groups, tally.groups_lost, tally.preemptions, tally.cached, tally.fetches, tally.drains,
      tally.ended_by_strikes);
  fmt::print(
      "{} processes, {} loads, {} with kept weights, {} with some, {} long tasks, {} reloads, "
      "{} refusals, {} late ticks, {} hopeless servers\n",
      tally.processes, tally.loads + tally.keeps, tally.keeps, tally.reuses, tally.long_works,
      tally.reloads, tally.refusals, tally.late_ticks, tally.restarts);
  fmt::print(
      "{} groups of fewer ranks, {} grown, {} places taken by spares, {} of them by a spare that "
      "held the weights, {} preloads, {} loads without room, {} epochs of uneven parts\n",
      tally.smaller, tally.grown, tally.spares, tally.covered, tally.preloads, tally.too_few,
      tally.uneven);
  fmt::print("ready turned false {} times after a loss or a stuck step, at most {} ms after it\n",
             tally.became_unready, tally.slowest_false_ms);
  fmt::print("faults:");
  for (int i = 0; i < kFaults; ++i) {
    fmt::print(" {} {},", tally.faults.by_kind[static_cast<size_t>(i)], kFaultNames[i]);
  }
  fmt::print("\nwhen:");
  for (int i = 0; i < kPhases; ++i) {
    fmt::print(" {} {},", tally.faults.by_phase[static_cast<size_t>(i)], kPhaseNames[i]);
  }
  fmt::print("\nfault points:");
  for (const auto& [name, fired] : tally.points) fmt::print(" {} {},", fired, name);
  fmt::print("\n");
}

// Checks that at least one seed finds each bug.
int run_plants(Flags flags) {
  int missed = 0;
  for (int i = 1; i < kPlants; ++i) {
    flags.plant = static_cast<Plant>(i);
    const Outcome outcome = run_all(flags);
    const bool found = !outcome.failure.empty();
    fmt::print(
        "{}: {}\n", kPlantNames[i],
        found ? fmt::format("seed {}: {}", outcome.failing_seed, outcome.failure) : "not found");
    missed += found ? 0 : 1;
  }
  return missed > 0 ? 1 : 0;
}

int run(Flags flags) {
  if (flags.plants) return run_plants(flags);
  const auto plant = std::find(std::begin(kPlantNames), std::end(kPlantNames), flags.plant_name);
  if (plant == std::end(kPlantNames)) {
    fmt::print("--plant {}: must be one of {}\n", flags.plant_name, fmt::join(kPlantNames, ", "));
    return 2;
  }
  flags.plant = static_cast<Plant>(plant - std::begin(kPlantNames));
  if (flags.seed >= 0) {
    flags.first = static_cast<uint64_t>(flags.seed);
    flags.seeds = 1;
  }
  const Outcome outcome = run_all(flags);
  print(flags, outcome.tally);
  if (outcome.failure.empty()) return 0;
  fmt::print("seed {}: {}\nits history: simulation --seed {} --trace\n", outcome.failing_seed,
             outcome.failure, outcome.failing_seed);
  return 1;
}

}  // namespace
}  // namespace lockstep::simulation

int main(int argc, char** argv) {
  CLI::App app("Runs the cores of engine, cluster and workers on virtual time.");
  lockstep::simulation::Flags flags;
  app.add_option("--seeds", flags.seeds, "The number of seeds")->capture_default_str();
  app.add_option("--first", flags.first, "The first seed")->capture_default_str();
  app.add_option("--seed", flags.seed, "Run only this seed");
  app.add_flag("--trace", flags.trace, "Print each event");
  app.add_option("--plant", flags.plant_name, "Plant this bug: a seed must find it");
  app.add_flag("--plants", flags.plants, "Plant each bug: all must be found");
  app.add_option("--jobs", flags.jobs, "The number of threads")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  std::signal(SIGABRT, lockstep::simulation::on_abort);
  return lockstep::simulation::run(flags);
}

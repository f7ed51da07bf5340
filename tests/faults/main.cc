// SPDX-License-Identifier: Apache-2.0
// faults --faults 200 --seed 1     causes 200 faults on a real server; if a check fails, prints the
//                                  seed and the fault's number, with exit code 1
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <vector>

#include "base/status.h"
#include "tests/faults/fault_run.h"

namespace lockstep::faults {
namespace {

struct Flags {
  int faults = 200;
  uint64_t seed = 1;
  int limit_s = 15;
  int workers = 3;
  int clients = 3;
  int64_t silent_ms = 0;
  int64_t stuck_ms = 0;
  std::vector<int> kinds, phases;
  std::string shape;
  std::string weight_cache = "off";
  std::string log;
};

// The times until the server served again, by kind and by phase.
class Times {
 public:
  void add(const Fault& fault, const Outcome& outcome) {
    const int64_t ms = outcome.took.count();
    all_.push_back(ms);
    by_phase_[name_of(outcome.phase)].push_back(ms);
    for (const Act& act : fault.acts) by_kind_[name_of(act.kind)].push_back(ms);
    if (fault.acts.size() > 1) by_kind_["two at once"].push_back(ms);
  }
  void print() {
    fmt::print("{:14} {:>6} {:>9} {:>7} {:>7}\n", "", "faults", "median ms", "p95 ms", "max ms");
    for (auto& [name, times] : by_kind_) print(name, times);
    for (auto& [name, times] : by_phase_) print("in " + name, times);
    print("all", all_);
  }

 private:
  static void print(const std::string& name, std::vector<int64_t>& times) {
    std::sort(times.begin(), times.end());
    const size_t last = times.size() - 1;
    fmt::print("{:14} {:>6} {:>9} {:>7} {:>7}\n", name, times.size(), times[last / 2],
               times[last * 95 / 100], times[last]);
  }

  std::vector<int64_t> all_;
  std::map<std::string, std::vector<int64_t>> by_kind_, by_phase_;
};

// The server's resources after each fault: a leak grows with the number of faults.
class Growth {
 public:
  void add(const Footprint& now) { seen_.push_back(now); }
  absl::Status check() const {
    const Footprint early = largest(seen_.size() / 4, seen_.size() / 2);
    const Footprint late = largest(3 * seen_.size() / 4, seen_.size());
    fmt::print(
        "the server had {} descriptors and {} MB in the second quarter, {} and {} in the "
        "last\n",
        early.descriptors, early.resident_mb, late.descriptors, late.resident_mb);
    constexpr int64_t kDescriptors = 20, kMegabytes = 64;
    constexpr size_t kEnough = 100;  // During fewer faults the allocator still takes more memory.
    if (late.descriptors > early.descriptors + kDescriptors) {
      return absl::InternalError("the server's descriptors grow");
    }
    if (seen_.size() >= kEnough && late.resident_mb > early.resident_mb + kMegabytes) {
      return absl::InternalError("the server's memory grows");
    }
    return absl::OkStatus();
  }

 private:
  Footprint largest(size_t begin, size_t end) const {
    Footprint max;
    for (size_t i = begin; i < end; ++i) {
      max.descriptors = std::max(max.descriptors, seen_[i].descriptors);
      max.resident_mb = std::max(max.resident_mb, seen_[i].resident_mb);
    }
    return max;
  }

  std::vector<Footprint> seen_;
};

FaultRunOptions options_of(const Flags& flags) {
  FaultRunOptions options{.workers = flags.workers,
                          .clients = flags.clients,
                          .limit = std::chrono::seconds(flags.limit_s),
                          .shape = flags.shape,
                          .serve_flags = {"--weight-cache", flags.weight_cache}};
  const auto pass = [&](const char* flag, int64_t value) {
    if (value == 0) return;
    options.serve_flags.insert(options.serve_flags.end(), {flag, std::to_string(value)});
  };
  pass("--silent-ms", flags.silent_ms);
  pass("--stuck-ms", flags.stuck_ms);
  if (!flags.shape.empty()) {
    options.serve_flags.insert(options.serve_flags.end(), {"--random-weights", "1"});
  }
  return options;
}

// The requested kinds; a shape has no files that could be rewritten.
std::vector<int> kinds_of(const Flags& flags) {
  std::vector<int> kinds = flags.kinds;
  if (flags.shape.empty()) return kinds;
  for (int kind = 0; kind < kKinds && flags.kinds.empty(); ++kind) kinds.push_back(kind);
  std::erase_if(kinds, [](int kind) {
    return kind == static_cast<int>(Kind::kRename) || kind == static_cast<int>(Kind::kOverwrite);
  });
  return kinds;
}

absl::Status run_faults(const Flags& flags, FaultRun& fault_run) {
  RETURN_IF_ERROR(fault_run.begin());
  FaultDraw faults(flags.seed, flags.workers, kinds_of(flags), flags.phases);
  Times times;
  Growth growth;
  fmt::print("{:>5} {:32} {:10} {:10} {:>7}\n", "fault", "kind", "phase", "rank", "ms");
  for (int number = 1; number <= flags.faults; ++number) {
    const Fault fault = faults.next();
    const auto named = [&](const std::string& phase, const std::string& end) {
      fmt::print("{:>5} {:32} {:10} {:10} {:>7}\n", number, fault.kinds(), phase, fault.ranks(),
                 end);
      std::fflush(stdout);
    };
    const absl::StatusOr<Outcome> outcome = fault_run.run(fault);
    if (!outcome.ok()) {
      named(name_of(fault.phase), "failed");
      return absl::InternalError(fmt::format("fault {}: {}", number, message_of(outcome.status())));
    }
    named(name_of(outcome->phase), std::to_string(outcome->took.count()));
    times.add(fault, *outcome);
    growth.add(fault_run.server().footprint());
  }
  const ClientTally tally = fault_run.tally();
  const int64_t descriptors = fault_run.server().descriptors_of_workers();
  RETURN_IF_ERROR(fault_run.end());
  times.print();
  fmt::print("clients: {} answers in full, {} ended because the checkpoint was rewritten\n",
             tally.served, tally.rewritten);
  if (!tally.pauses_ms.empty()) {
    const size_t last = tally.pauses_ms.size() - 1;
    fmt::print("the longest pause in each answer: median {} ms, p99 {} ms, at most {} ms\n",
               tally.pauses_ms[last / 2], tally.pauses_ms[last * 99 / 100], tally.pauses_ms[last]);
  }
  fmt::print("a worker had at most {} descriptors at the end\n", descriptors);
  return growth.check();
}

int run(const Flags& flags) {
  FaultRun fault_run(options_of(flags));
  const absl::Status status = run_faults(flags, fault_run);
  const std::string log = fault_run.log();
  if (!flags.log.empty()) std::ofstream(flags.log) << log;
  if (status.ok()) return 0;
  constexpr size_t kTail = 6'000;
  fmt::print("{}\nseed {}, {}\n", log.substr(log.size() - std::min(log.size(), kTail)), flags.seed,
             message_of(status));
  return 1;
}

}  // namespace
}  // namespace lockstep::faults

// The numbers of kinds or phases by their names.
template <typename Enum>
std::map<std::string, int> numbers_by_name(int count) {
  std::map<std::string, int> numbers;
  for (int i = 0; i < count; ++i) {
    numbers[lockstep::faults::name_of(static_cast<Enum>(i))] = i;
  }
  return numbers;
}

int main(int argc, char** argv) {
  using lockstep::faults::Kind, lockstep::faults::Phase;
  CLI::App app("Draws faults from a seed and causes them on a real server with real workers.");
  lockstep::faults::Flags flags;
  app.add_option("--faults", flags.faults, "The number of faults")->capture_default_str();
  app.add_option("--seed", flags.seed, "The seed of the draw")->capture_default_str();
  app.add_option("--limit-s", flags.limit_s,
                 "The max time in s after a fault until the server serves again")
      ->capture_default_str();
  app.add_option("--workers", flags.workers, "The server's ranks")->capture_default_str();
  app.add_option("--clients", flags.clients, "The number of clients")->capture_default_str();
  app.add_option("--kinds", flags.kinds, "Draw only these kinds")
      ->delimiter(',')
      ->transform(CLI::Transformer(numbers_by_name<Kind>(lockstep::faults::kKinds)));
  app.add_option("--phases", flags.phases, "Cause faults only in these phases")
      ->delimiter(',')
      ->transform(CLI::Transformer(numbers_by_name<Phase>(lockstep::faults::kPhases)));
  app.add_option("--silent-ms", flags.silent_ms, "Passed to the server (0: its default)");
  app.add_option("--stuck-ms", flags.stuck_ms, "Passed to the server (0: its default)");
  app.add_option(
         "--shape", flags.shape,
         "A folder with config.json and tokenizer.json; weights are drawn and never rewritten")
      ->check(CLI::ExistingDirectory);
  app.add_option("--weight-cache", flags.weight_cache, "Passed to the server")
      ->capture_default_str();
  app.add_option("--log", flags.log, "A file for the server's log");
  CLI11_PARSE(app, argc, argv);
  if (!flags.shape.empty() && !flags.kinds.empty() && lockstep::faults::kinds_of(flags).empty()) {
    fmt::print("--shape {}: it has no files that could be rewritten\n", flags.shape);
    return 2;
  }
  return lockstep::faults::run(flags);
}

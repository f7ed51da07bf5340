// SPDX-License-Identifier: Apache-2.0
// Median microseconds of all_gather and all_reduce between forked processes, by message size.
//   collectives_bench [--ranks N] [--json]
// The size is that of an all_gather's result, or of an all_reduce's input, on every rank. Interpret
// a figure together with the machine: two CPUs may be one core's threads. Each rank is pinned to
// its own CPU if there are enough.
#include <fmt/format.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "worker/collectives/host/rendezvous.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t kSizes[] = {2 << 10, 16 << 10, 256 << 10, 4 << 20};

struct Median {
  std::string_view name;
  int64_t bytes;
  double us;
};

template <typename Body>
absl::StatusOr<double> median_us(int64_t repeats, const Body& body) {
  std::vector<double> times;
  for (int64_t i = 0; i < repeats; ++i) {
    const Clock::time_point start = Clock::now();
    RETURN_IF_ERROR(body());
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
  return times[repeats / 2];
}

absl::StatusOr<std::vector<Median>> measure(Collective& group) {
  std::vector<Median> medians;
  std::vector<int64_t> boundaries;
  for (const int64_t bytes : kSizes) {
    const int64_t count = bytes / static_cast<int64_t>(sizeof(float));
    const int64_t repeats = std::clamp<int64_t>((256 << 20) / bytes, 200, 10'000);
    std::vector<float> data(count, 1.0f), all(count);
    boundaries.clear();
    for (int r = 0; r <= group.ranks(); ++r) boundaries.push_back(count * r / group.ranks());
    const GatherArgs args{.in = data.data(),
                          .in_stride = count,
                          .out = all.data(),
                          .out_stride = count,
                          .rows = 1,
                          .boundaries = boundaries,
                          .element_bytes = sizeof(float)};
    ASSIGN_OR_RETURN(const double gather,
                     median_us(repeats, [&] { return group.all_gather(args); }));
    medians.push_back({"all_gather", bytes, gather});
    std::fill(data.begin(), data.end(), 0.0f);
    ASSIGN_OR_RETURN(const double reduce, median_us(repeats, [&] {
                       return group.all_reduce(data.data(), 1, count, count);
                     }));
    medians.push_back({"all_reduce", bytes, reduce});
  }
  return medians;
}

// Pins the rank to its own CPU, because the system may put ranks that wake each other on one CPU.
void bind_to_processor(int rank, int ranks) {
  cpu_set_t usable, own;
  if (sched_getaffinity(0, sizeof(usable), &usable) != 0 || CPU_COUNT(&usable) < ranks) return;
  int cpu = 0;
  for (int before = rank; !CPU_ISSET(cpu, &usable) || before-- > 0;) ++cpu;
  CPU_ZERO(&own);
  CPU_SET(cpu, &own);
  sched_setaffinity(0, sizeof(own), &own);
}

absl::StatusOr<std::vector<Median>> run(int rank, int ranks, const std::string& group) {
  bind_to_processor(rank, ranks);
  ASSIGN_OR_RETURN(
      const std::unique_ptr<Collective> collective,
      meet_in_shared_memory({.rank = rank, .ranks = ranks, .group = group, .secret = "bench"}));
  return measure(*collective);
}

void print(const std::vector<Median>& medians, int ranks, bool json) {
  std::string rows;
  for (const Median& m : medians) {
    rows += json ? fmt::format("{}{{\"name\": \"{}\", \"bytes\": {}, \"us\": {:.2f}}}",
                               rows.empty() ? "" : ", ", m.name, m.bytes, m.us)
                 : fmt::format("{:<12}{:>10}{:>12.2f}\n", m.name, m.bytes, m.us);
  }
  if (json) {
    fmt::print("{{\"ranks\": {}, \"median\": [{}]}}\n", ranks, rows);
  } else {
    fmt::print("{} ranks\n{:<12}{:>10}{:>12}\n{}", ranks, "", "bytes", "median us", rows);
  }
}

int bench(int ranks, bool json) {
  const std::string group = fmt::format("bench-{:012}", getpid());
  for (int rank = 1; rank < ranks; ++rank) {
    if (fork() == 0) _exit(run(rank, ranks, group).ok() ? 0 : 1);
  }
  const absl::StatusOr<std::vector<Median>> medians = run(0, ranks, group);
  while (wait(nullptr) > 0) {
  }
  if (!medians.ok()) {
    fmt::print(stderr, "collectives_bench: {}\n", message_of(medians.status()));
    return 1;
  }
  print(*medians, ranks, json);
  return 0;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  int ranks = 2;
  bool json = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--json") {
      json = true;
    } else if (flag == "--ranks" && i + 1 < argc) {
      ranks = std::atoi(argv[++i]);
    } else {
      fmt::print(stderr, "usage: collectives_bench [--ranks N] [--json]\n");
      return 2;
    }
  }
  if (ranks < 1 || ranks > lockstep::kMaxRegionRanks) {
    fmt::print(stderr, "--ranks: must be 1 to {}\n", lockstep::kMaxRegionRanks);
    return 2;
  }
  return lockstep::bench(ranks, json);
}

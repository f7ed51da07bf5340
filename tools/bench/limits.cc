// SPDX-License-Identifier: Apache-2.0
// This machine's limits: bytes per second read from memory and multiply-adds per second, each with
// one thread and with two; and the distance of the two CPUs.
//   limits [--placement]      one JSON object on one line
// LOCKSTEP_ISA=avx2 and others: the limits with these instructions. A virtual machine's CPUs move:
// two of them may be threads of one core now and cores with separate caches a second later. The
// round-trip time of a cache line between them sorts placements into classes, and only measurements
// of one class are comparable. A class in which one of the CPUs shares its core with a busy
// hardware thread, maybe another virtual machine's, has "busy" in its name: tiles run at a quarter
// of their speed there. --placement takes about 2 ms and prints only the placement.
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/system/busy_sibling.h"
#include "base/system/cpu.h"
#include "tools/bench/peaks.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t kReadBytes = 1LL << 30;  // More than any cache holds.
constexpr int64_t kHugePage = 2LL << 20;
constexpr int kRepeats = 5;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::vector<int> usable_processors() {
  cpu_set_t usable;
  std::vector<int> processors;
  if (sched_getaffinity(0, sizeof(usable), &usable) != 0) return processors;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &usable)) processors.push_back(cpu);
  }
  return processors;
}

// Runs body(thread) on the first CPUs, one thread each; returns the seconds from the moment when
// all threads are ready until the last one is done.
double timed(const std::vector<int>& processors, int threads,
             const std::function<void(int)>& body) {
  Clock::time_point start;
  std::barrier begin(threads, [&]() noexcept { start = Clock::now(); });
  std::vector<std::thread> running;
  running.reserve(static_cast<size_t>(threads));
  for (int thread = 0; thread < threads; ++thread) {
    running.emplace_back([&, thread] {
      cpu_set_t own;
      CPU_ZERO(&own);
      CPU_SET(processors[static_cast<size_t>(thread)], &own);
      sched_setaffinity(0, sizeof(own), &own);
      begin.arrive_and_wait();
      body(thread);
    });
  }
  for (std::thread& thread : running) thread.join();
  return seconds_since(start);
}

// Nanoseconds of a word's round trip between the CPUs; the median of some batches.
double ping_pong_ns(const std::vector<int>& processors) {
  constexpr int kBatches = 9, kTrips = 600;
  alignas(64) std::atomic<int> word{0};
  std::vector<double> batches;
  timed(processors, 2, [&](int thread) {
    for (int batch = 0; batch < kBatches; ++batch) {
      const Clock::time_point start = Clock::now();
      for (int trip = 0; trip < kTrips; ++trip) {
        while (word.load(std::memory_order_acquire) != thread) {
        }
        word.store(1 - thread, std::memory_order_release);
      }
      if (thread == 0) batches.push_back(seconds_since(start) * 1e9 / kTrips);
    }
  });
  return median(batches);
}

// A: two threads of one core. B: cores that share a cache. C: cores further apart.
struct Placement {
  std::string name = "one";  // A single CPU.
  double ns = 0;
  double adds_per_cycle = 0;  // The smaller value of the two CPUs.
};

// The additions per cycle of the slower of the two CPUs; each is measured alone.
double min_adds_per_cycle(const std::vector<int>& processors) {
  double min = 0;
  for (size_t cpu = 0; cpu < std::min<size_t>(2, processors.size()); ++cpu) {
    double adds = 0;
    timed({processors[cpu]}, 1, [&](int) { adds = adds_per_cycle(); });
    min = min == 0 ? adds : std::min(min, adds);
  }
  return min;
}

Placement find_placement(const std::vector<int>& processors) {
  constexpr double kOneCoreNs = 45, kOneCacheNs = 180;
  Placement placement = {.adds_per_cycle = min_adds_per_cycle(processors)};
  if (processors.size() > 1) {
    placement.ns = ping_pong_ns(processors);
    placement.name = placement.ns < kOneCoreNs ? "A" : placement.ns < kOneCacheNs ? "B" : "C";
  }
  const double adds = placement.adds_per_cycle;
  if (adds > 0 && adds < kMinAddsAlone) placement.name += " busy";
  return placement;
}

// Memory in huge pages if possible, filled; lives until the program ends.
const std::byte* fill_memory() {
  const auto bytes = static_cast<size_t>(kReadBytes + kHugePage);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  const auto address = reinterpret_cast<uintptr_t>(memory);
  memory = static_cast<std::byte*>(memory) + (kHugePage - address % kHugePage) % kHugePage;
  madvise(memory, static_cast<size_t>(kReadBytes), MADV_HUGEPAGE);
  std::memset(memory, 1, static_cast<size_t>(kReadBytes));
  return static_cast<const std::byte*>(memory);
}

// The rate with the faster of the two ReadOrders.
double read_gb_per_s(const std::vector<int>& processors, int threads, const std::byte* memory) {
  const int64_t share = kReadBytes / threads;
  std::atomic<uint64_t> sum{0};
  std::map<ReadOrder, std::vector<double>> rates;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    for (const ReadOrder order : kReadOrders) {
      const double seconds = timed(processors, threads, [&](int thread) {
        sum += read_all(best_isa(), order, memory + thread * share, share);
      });
      rates[order].push_back(static_cast<double>(kReadBytes) / seconds / 1e9);
    }
  }
  return std::max(median(rates[ReadOrder::kHardware]), median(rates[ReadOrder::kFourPages]));
}

double giga_ops_per_s(const std::vector<int>& processors, int threads, const Peak& peak) {
  constexpr int64_t kIterations = 4'000'000;
  std::vector<double> rates;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    std::atomic<int64_t> operations{0};
    const double seconds =
        timed(processors, threads, [&](int) { operations += peak.run(kIterations); });
    rates.push_back(static_cast<double>(operations) / seconds / 1e9);
  }
  return median(rates);
}

std::string limits_json(const std::vector<int>& processors, int threads, const std::byte* memory) {
  const Placement before = find_placement(processors);
  std::string text = fmt::format("{{\"threads\": {}, \"read_gb_per_s\": {:.2f}", threads,
                                 read_gb_per_s(processors, threads, memory));
  std::map<std::string, double> best;
  for (const Peak& peak : peaks()) {
    if (!machine_runs(peak.isa) || peak.isa > best_isa()) continue;
    best[peak.kind] = std::max(best[peak.kind], giga_ops_per_s(processors, threads, peak));
  }
  for (const auto& [kind, rate] : best) {
    text += fmt::format(", \"{}_gop_per_s\": {:.1f}", kind, rate);
  }
  const Placement after = find_placement(processors);
  return text + fmt::format(", \"adds_per_cycle\": {:.2f}, \"placement\": \"{}\"}}",
                            after.adds_per_cycle, before.name == after.name ? after.name : "mixed");
}

int print_placement() {
  const Placement placement = find_placement(usable_processors());
  fmt::print("{{\"placement\": \"{}\", \"ping_pong_ns\": {:.1f}, \"adds_per_cycle\": {:.2f}}}\n",
             placement.name, placement.ns, placement.adds_per_cycle);
  return 0;
}

int print_limits() {
  const std::vector<int> processors = usable_processors();
  const std::byte* memory = fill_memory();
  if (processors.empty() || memory == nullptr) {
    fmt::print(stderr, "limits: must have a CPU and {} bytes of memory, found {} CPUs{}\n",
               kReadBytes, processors.size(), memory == nullptr ? " and no such memory" : "");
    return 1;
  }
  std::string rows;
  for (int threads = 1; threads <= std::min<int>(2, static_cast<int>(processors.size()));
       ++threads) {
    rows += (rows.empty() ? "" : ", ") + limits_json(processors, threads, memory);
  }
  fmt::print("{{\"processor\": \"{}\", \"isa\": \"{}\", \"limits\": [{}]}}\n", cpu_model_name(),
             isa_name(best_isa()), rows);
  return 0;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  if (argc == 1) return lockstep::print_limits();
  if (argc == 2 && std::string_view(argv[1]) == "--placement") return lockstep::print_placement();
  fmt::print(stderr, "usage: limits [--placement]\n");
  return 2;
}

// SPDX-License-Identifier: Apache-2.0
// The cost of handing work to a pool's threads, by how long they have been idle.
//   threads_bench [--threads N] [--no-pin]
// A hand-over is a loop of one index per thread, in which each thread waits until all have begun.
// The distance of two CPUs is printed first, as half the time of a ping-pong between them: on a
// virtual machine it changes, and only figures with the same distance are comparable.
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>

#include "base/system/topology.h"
#include "base/threads/thread_pool.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;
using Us = std::chrono::duration<double, std::micro>;

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

double ping_pong_ns(int from, int to) {
  constexpr int kRounds = 20000;
  std::atomic<int> next{0};
  std::thread other([&] {
    bind_thread({to});
    for (int i = 1; i < 2 * kRounds; i += 2) {
      while (next.load() != i) {
      }
      next.store(i + 1);
    }
  });
  const std::vector<int> before = thread_processors();
  bind_thread({from});
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < 2 * kRounds; i += 2) {
    while (next.load() != i) {
    }
    next.store(i + 1);
  }
  other.join();
  bind_thread(before);
  return Us(Clock::now() - start).count() * 1000 / (2 * kRounds);
}

double cpu_seconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double hand_over_us(ThreadPool& pool, std::chrono::microseconds idle, int repeats) {
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    const Clock::time_point rested = Clock::now() + idle;
    while (Clock::now() < rested) {
    }
    std::atomic<int> begun{0};
    const Clock::time_point start = Clock::now();
    for_each(pool, pool.threads(), [&](int64_t) {
      begun.fetch_add(1);
      while (begun.load() < pool.threads()) std::this_thread::yield();
    });
    times.push_back(Us(Clock::now() - start).count());
  }
  return median(std::move(times));
}

void bench(int threads, bool pin) {
  const std::vector<Processor> usable = locate_processors(thread_processors());
  const std::vector<int> own =
      pin ? processors_of_worker(usable, 1, threads, 0) : std::vector<int>();
  if (usable.size() > 1) {
    std::printf("processors %d and %d: %.0f ns\n", usable[0].id, usable[1].id,
                ping_pong_ns(usable[0].id, usable[1].id));
  }
  ThreadPool pool(threads, own);
  std::printf("%d threads, %s\n%12s%14s\n", threads, own.empty() ? "free" : "bound", "idle us",
              "hand-over us");
  for (const int idle : {0, 5, 20, 50, 100, 200, 500, 2000}) {
    std::printf("%12d%14.2f\n", idle,
                hand_over_us(pool, std::chrono::microseconds(idle), idle < 100 ? 3000 : 500));
  }
  const double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  std::printf("half a second of idleness used %.2f ms of CPU time\n",
              (cpu_seconds() - before) * 1000);
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  int threads = 2;
  bool pin = true;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--no-pin") {
      pin = false;
    } else if (flag == "--threads" && i + 1 < argc) {
      threads = std::max(1, std::atoi(argv[++i]));
    } else {
      std::fprintf(stderr, "usage: threads_bench [--threads N] [--no-pin]\n");
      return 2;
    }
  }
  lockstep::bench(threads, pin);
  return 0;
}

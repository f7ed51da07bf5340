// SPDX-License-Identifier: Apache-2.0
// Arriving is a store to the rank's own cache line. Only the last rank to arrive rings the doorbell
// (wakes sleepers), and only if a rank sleeps.
#include "worker/collectives/host/barrier.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>
#include <span>
#include <string>

#include "base/check.h"
#include "base/status.h"

namespace lockstep {
namespace {

using std::chrono::nanoseconds;

// About as long as a wake-up takes on a virtual machine whose idle CPUs halt. So a wait costs at
// most about twice as much as the better of the two choices: to spin all the time, or to sleep at
// once.
constexpr nanoseconds kSpin = std::chrono::microseconds(30);
constexpr nanoseconds kPeerCheck = std::chrono::milliseconds(20);

// Shared futexes: several processes map the words.
void futex_wait(std::atomic<uint32_t>& word, uint32_t value, nanoseconds timeout) {
  static_assert(sizeof(word) == 4);
  const int64_t ns = std::max<int64_t>(timeout.count(), 1);
  const timespec time{.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &time, nullptr, 0);
}

void futex_wake_all(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// The CPU that this thread runs on, plus 1. No system call: glibc reads the number from memory.
uint32_t cpu_word() { return static_cast<uint32_t>(sched_getcpu() + 1); }

}  // namespace

Barrier::Barrier(RegionHeader& region, int rank) : region_(region), rank_(rank) {
  LOCKSTEP_CHECK(0 <= rank && rank < region.ranks);
}

void Barrier::arrive() {
  region_.at[rank_].cpu.store(cpu_word(), std::memory_order_relaxed);
  // Sequentially consistent, like the sleeper's accesses. A sleeper increments `sleepers` and then
  // reads the sequences; this rank writes its sequence and then reads `sleepers`: so at least one
  // of the two sees the other. If several ranks arrive at once, the one whose write is the last in
  // the order of all accesses sees all the others, and rings.
  region_.at[rank_].sequence.exchange(++sequence_);
  if (region_.sleepers.load() != 0 && all_arrived()) ring();
}

bool Barrier::all_arrived() const {
  for (int rank = 0; rank < region_.ranks; ++rank) {
    if (region_.at[rank].sequence.load() < sequence_) return false;
  }
  return true;
}

// False if an awaited rank was last seen on this CPU, where spinning would only keep it from
// running. This happens with more ranks than CPUs, or if the scheduler has put two ranks on one
// CPU.
bool Barrier::worth_spinning() const {
  const uint32_t here = cpu_word();
  for (int rank = 0; rank < region_.ranks; ++rank) {
    const RegionHeader::Rank& other = region_.at[rank];
    if (other.sequence.load() < sequence_ && other.cpu.load(std::memory_order_relaxed) == here) {
      return false;
    }
  }
  return true;
}

absl::Status Barrier::wait(Clock::time_point deadline, int64_t* wait_ns) {
  if (all_arrived()) return absl::OkStatus();
  const Clock::time_point start = Clock::now();
  Clock::time_point now = start;
  bool arrived = false;
  while (!arrived && now - start < kSpin && worth_spinning()) {
    for (int i = 0; i < 16 && !arrived; ++i) {
      relax();
      arrived = all_arrived();
    }
    now = Clock::now();
  }
  absl::Status status;
  if (!arrived) {
    status = sleep(deadline);
    now = Clock::now();
  }
  *wait_ns += (now - start).count();
  return status;
}

absl::Status Barrier::sleep(Clock::time_point deadline) {
  region_.sleepers.fetch_add(1);
  Clock::time_point next_check = Clock::now() + kPeerCheck;
  absl::Status status;
  for (;;) {
    // Read before the checks: if the bell rings after this line the futex returns at once.
    const uint32_t doorbell = region_.doorbell.load();
    if (all_arrived()) break;
    status = failure();
    if (!status.ok()) break;
    const Clock::time_point now = Clock::now();
    if (now >= deadline) {
      fail(Failure::kDeadline, number());
    } else if (now >= next_check) {
      check_peers();
      next_check = now + kPeerCheck;
    } else {
      futex_wait(region_.doorbell, doorbell, std::min(deadline, next_check) - now);
    }
  }
  region_.sleepers.fetch_sub(1);
  return status;
}

void Barrier::check_peers() {
  for (int rank = 0; rank < region_.ranks; ++rank) {
    // A rank that ended after it arrived has not failed the group: read `sequence` last.
    const bool left = region_.at[rank].left.load() != 0;
    const bool gone = is_gone(region_.processes[rank_], region_.processes[rank]);
    if (!left && !gone) continue;
    if (region_.at[rank].sequence.load() >= sequence_) continue;
    fail(left ? Failure::kLeft : Failure::kGone, region_.numbers[rank]);
  }
}

void Barrier::fail(Failure failure, int64_t number) {
  uint32_t none = 0;
  region_.failure.compare_exchange_strong(
      none, static_cast<uint32_t>(failure) | static_cast<uint32_t>(number) << 8);
  ring();
}

void Barrier::ring() {
  region_.doorbell.fetch_add(1);
  futex_wake_all(region_.doorbell);
}

void Barrier::leave() {
  region_.at[rank_].left.store(1);
  // Sleepers see that this rank has left when they next check their peers: no faster path is
  // needed.
}

absl::Status Barrier::failure() const {
  const uint32_t word = region_.failure.load();
  if (word == 0) [[likely]] {
    return absl::OkStatus();
  }
  return failure_status(word);
}

Goodbye Barrier::goodbye() const {
  const uint32_t word = region_.failure.load();
  const auto failure = static_cast<Failure>(word & 0xff);
  const bool lost = failure == Failure::kGone || failure == Failure::kLeft;
  return {.failure = lost ? failure : Failure::kAborted,
          .number = word == 0 ? number() : static_cast<int64_t>(word >> 8)};
}

absl::Status Barrier::failure_status(uint32_t word) const {
  const auto named = [this](int64_t number) {  // Adds the process, if it is on this host.
    const std::span<const int64_t> numbers(region_.numbers, region_.ranks);
    const auto found = std::ranges::find(numbers, number);
    const int64_t pid = found == numbers.end() ? 0 : region_.processes[found - numbers.begin()].pid;
    return pid == 0 ? fmt::format("rank {}", number) : fmt::format("rank {} (pid {})", number, pid);
  };
  const std::string name = named(word >> 8);
  switch (static_cast<Failure>(word & 0xff)) {
    case Failure::kGone:
      return unavailable("{} is gone", name);
    case Failure::kLeft:
      return unavailable("{} has left the group", name);
    case Failure::kDeadline: {
      std::string missing;
      for (int other = 0; other < region_.ranks; ++other) {
        if (other == rank_ || region_.at[other].sequence.load() >= sequence_) continue;
        missing += (missing.empty() ? "" : ", ") + named(region_.numbers[other]);
      }
      return absl::DeadlineExceededError(
          fmt::format("{} timed out; ranks that have not arrived: {}", name,
                      missing.empty() ? "none (all have arrived by now)" : missing));
    }
    case Failure::kMismatch:
      return absl::InternalError(fmt::format("{} found that the ranks' calls do not match", name));
    case Failure::kDamaged:
      return unavailable("data from {} arrived damaged", name);
    default:
      return absl::AbortedError(fmt::format("aborted by {}", name));
  }
}

}  // namespace lockstep

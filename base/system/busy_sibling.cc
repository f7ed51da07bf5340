// SPDX-License-Identifier: Apache-2.0
// A chain of additions, each of which needs the result of the one before, takes one cycle per
// addition, even beside a busy sibling. So it serves as the clock. Independent additions share the
// core's units with the sibling's instructions.
#include "base/system/busy_sibling.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>

namespace lockstep {
namespace {

#ifdef __x86_64__

constexpr int64_t kAddsPerPass = 100;  // In both loops.

double seconds_of(void (*loop)(int64_t), int64_t passes) {
  const auto begin = std::chrono::steady_clock::now();
  loop(passes);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The summand is a register: a core may drop additions of constants before they reach its units.
void add_in_chain(int64_t passes) {
  uint64_t sum = 0;
  asm volatile("1: .rept 100\n\t add %[one], %[sum]\n\t .endr\n\t dec %[passes]\n\t jnz 1b"
               : [sum] "+r"(sum), [passes] "+r"(passes)
               : [one] "r"(uint64_t{1})
               : "cc");
}

void add_independently(int64_t passes) {
  asm volatile(
      "1: .rept 10\n\t .irp sum,rax,rbx,rcx,rdx,r8,r9,r10,r11,r12,r13\n\t add %[one], %%\\sum\n\t "
      ".endr\n\t .endr\n\t dec %[passes]\n\t jnz 1b"
      : [passes] "+r"(passes)
      : [one] "r"(uint64_t{1})
      : "cc", "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13");
}

}  // namespace

double adds_per_cycle() {
  constexpr int64_t kChained = 300, kIndependent = 1500;  // Passes; each loop takes about 10 us.
  double rates[9];
  for (double& rate : rates) {
    const double cycle = seconds_of(add_in_chain, kChained) / (kChained * kAddsPerPass);
    rate = cycle / (seconds_of(add_independently, kIndependent) / (kIndependent * kAddsPerPass));
  }
  std::sort(std::begin(rates), std::end(rates));
  return rates[std::size(rates) / 2];
}

#else

}  // namespace

double adds_per_cycle() { return 0; }

#endif

}  // namespace lockstep

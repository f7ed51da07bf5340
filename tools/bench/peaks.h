// SPDX-License-Identifier: Apache-2.0
// Loops that do nothing but what a processor is rated by: multiply-adds of one kind, and reading
// memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/system/isa.h"

namespace lockstep {

// Multiply-adds of one kind, from registers, in more independent chains than the latency asks for.
struct Peak {
  // "fp32", "bf16" (where there is no instruction for it as "fp32": widening is not counted),
  // "int8", "int4" (by int8): what is multiplied.
  const char* kind;
  Isa isa;  // What it needs.
  // Runs the loop and returns how many multiplications and additions it did.
  int64_t (*run)(int64_t iterations);
};

// In order of ISA: of a kind the last one that the machine runs is the one that counts.
std::span<const Peak> peaks();

// Adds up `bytes` (a multiple of 512) from a 64-byte border on, with the widest loads of `isa`.
uint64_t read_all(Isa isa, const std::byte* from, int64_t bytes);

}  // namespace lockstep

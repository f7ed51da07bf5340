// SPDX-License-Identifier: Apache-2.0
// Loops that measure the peak rates of CPUs: multiply-adds of one kind, and reading memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/system/isa.h"

namespace lockstep {

// Multiply-adds of one kind, from registers, in more independent chains than the latency needs.
struct Peak {
  // The kind of product: "fp32", "bf16", "int8" or "int4". Without an instruction for bf16, "bf16"
  // is the loop of fp32: widening is not counted. "int4" uses instructions for int8.
  const char* kind;
  Isa isa;  // The ISA that it needs.
  // Runs the loop and returns the number of its multiplications and additions.
  int64_t (*run)(int64_t iterations);
};

// The fastest of a kind that the machine runs is its limit. A later ISA's instruction can be
// slower, as vdpbf16ps is on Xeons.
std::span<const Peak> peaks();

// How read_all() prefetches: with kHardware only the hardware does; with kFourPages the loop also
// prefetches from four pages in turn (four_pages.h). The faster order differs between generations
// of Xeons, so a limit is the larger of both rates.
enum class ReadOrder : uint8_t { kHardware, kFourPages };
inline constexpr ReadOrder kReadOrders[] = {ReadOrder::kHardware, ReadOrder::kFourPages};

// Sums up `bytes` (a multiple of 512) from a 64-byte boundary, with the widest loads of `isa`.
uint64_t read_all(Isa isa, ReadOrder order, const std::byte* from, int64_t bytes);

}  // namespace lockstep

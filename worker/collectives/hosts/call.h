// SPDX-License-Identifier: Apache-2.0
// The description of a collective. A rank sends it with its data, so ranks that are in different
// collectives notice that before they use a byte.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

struct Call {
  enum Kind : uint64_t { kAllReduce = 1, kAllGather = 2 };
  uint64_t kind = 0;
  uint64_t epoch = 0;
  uint64_t number = 0;  // The collective's number, from 1.
  int64_t rows = 0;
  int64_t cols = 0;  // Columns of all ranks together.
  int64_t element_bytes = 0;
  uint64_t boundaries_hash = 0;
  int64_t place = -1;  // The output's offset in the shared values, in bytes; -1: elsewhere.

  bool operator==(const Call&) const = default;
};

// "all_gather 7 of 3 x 64 elements of 4 bytes in epoch 2"
std::string describe(const Call& call);

// The call that another rank made in place of `own`, as a clause about that rank.
std::string describe_other(const Call& other, const Call& own);

}  // namespace lockstep

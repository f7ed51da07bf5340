// SPDX-License-Identifier: Apache-2.0
// The time of steps by kernel. It is always on: per operator it costs one reading of the clock and
// a few additions. Only the thread that runs steps uses it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "worker/kernels/find.h"

namespace lockstep {

class Profile {
 public:
  // The row of that name, a new one if there is none. Called at load.
  int row(const std::string& name);

  void add(int row, int64_t ns, const KernelCost& cost) {
    Row& to = rows_[row];
    ++to.calls;
    to.ns += ns;
    to.bytes += cost.bytes;
    to.flops += cost.flops;
  }
  void add_step() { ++steps_; }
  // Forgets all that was added.
  void clear() {
    for (Row& row : rows_) row = {.name = std::move(row.name)};
    steps_ = 0;
  }

  // One line per row, the slowest first: calls, time in ms and in %, GB/s, GFLOP/s.
  std::string to_text() const;

 private:
  struct Row {
    std::string name;
    int64_t calls = 0;
    int64_t ns = 0;
    int64_t bytes = 0;
    int64_t flops = 0;
  };
  std::vector<Row> rows_;
  int64_t steps_ = 0;
};

}  // namespace lockstep

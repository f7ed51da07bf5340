// SPDX-License-Identifier: Apache-2.0
#include "worker/collectives/hosts/call.h"

#include <fmt/format.h>

namespace lockstep {

std::string describe(const Call& call) {
  return fmt::format("{} {} of {} x {} elements of {} bytes in epoch {}",
                     call.kind == Call::kAllReduce   ? "all_reduce"
                     : call.kind == Call::kAllGather ? "all_gather"
                                                     : "unknown call",
                     call.number, call.rows, call.cols, call.element_bytes, call.epoch);
}

std::string describe_other(const Call& other, const Call& own) {
  return fmt::format("called {}{}", describe(other),
                     other.boundaries_hash != own.boundaries_hash ? " with other boundaries"
                     : other.place != own.place                   ? " at another place"
                                                                  : "");
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>
#include <vector>

#include "absl/status/statusor.h"
#include "base/status.h"
#include "worker/collectives/collective.h"

namespace lockstep {

// Every rank gives its `own`. Returns all of these by rank; the result is the same on every rank. A
// collective call; its errors are those of `met`.
template <typename T>
absl::StatusOr<std::vector<T>> share(Collective& met, const T& own) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(met.ranks());
  std::vector<int64_t> boundaries;
  for (int rank = 0; rank <= met.ranks(); ++rank) boundaries.push_back(rank);
  RETURN_IF_ERROR(met.all_gather({.in = &own,
                                  .in_stride = 1,
                                  .out = all.data(),
                                  .out_stride = met.ranks(),
                                  .rows = 1,
                                  .boundaries = boundaries,
                                  .element_bytes = sizeof(T)}));
  return all;
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// Chooses the kernel of each linear, the same for all ranks of a group, on devices where workers
// prove kernels. With different kernels, values that must be equal on all ranks would differ.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"

namespace lockstep {

struct Agreement {
  std::vector<std::string> kernels;  // By linear; empty: no rank proves any.
  bool unanimous = true;             // Every rank already uses these kernels.
};

// From the ranks' Ready messages: for each linear, rank 0's first kernel that all have proven.
// kFailedPrecondition names two ranks without a common one.
absl::StatusOr<Agreement> agree_on_kernels(const std::vector<cluster::WorkerMessage>& readies);

// A short digest that differs between choices; "" if there are none.
std::string digest_of(const std::vector<std::string>& kernels);

}  // namespace lockstep

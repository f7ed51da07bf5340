// SPDX-License-Identifier: Apache-2.0
// The kernels of a group's linears, where workers prove them: ranks whose linears are computed by
// different ones would not have the same values where they must.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"

namespace lockstep {

struct Agreement {
  std::vector<std::string> kernels;  // Of each linear; empty: nobody proves any.
  bool unanimous = true;             // Every rank computes so already.
};

// By what the ranks are ready with: each linear's first of rank 0 that all have proven.
// kFailedPrecondition names two ranks that have none in common.
absl::StatusOr<Agreement> agree_on_kernels(const std::vector<cluster::WorkerMessage>& readies);

// Tells one choice from another, in one word; "" where there is none.
std::string digest_of(const std::vector<std::string>& kernels);

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// What a plan costs each rank: the data of `lockstep plan`.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "models/graph/graph.h"
#include "sharding/layout/plan.h"

namespace lockstep {

struct PlanRow {
  int rank = 0;
  int64_t weight_bytes = 0;
  int64_t kv_bytes_per_token = 0;
  int64_t block_bytes = 0;  // Of a sequence, whatever its length.
  int64_t arena_bytes = 0;
  int64_t gathers = 0;  // Collectives of a step.
  int64_t reduces = 0;
  int64_t collective_bytes_per_token = 0;  // That this rank gives, rows of outputs left out.
  std::array<Range, kAxisCount> columns;   // By axis; all zero where the model has no such axis.
};

struct PlanTable {
  std::string model;
  Strategy strategy = Strategy::kGather;
  DType kv_dtype = DType::kF32;
  std::vector<PlanRow> rows;  // By rank.
};

// What one of several hosts sends and receives, by its ranks' collectives together.
struct PlanHost {
  int first_rank = 0;
  int end_rank = 0;
  int64_t sent_bytes_per_token = 0;
  int64_t received_bytes_per_token = 0;
};

// `programs` are what compile() made of `model` with `options`.
absl::StatusOr<PlanTable> plan_table(const Graph& model, const CompileOptions& options,
                                     const std::vector<program::Program>& programs);

// Ranks in their order, as many on one host as on another or one more. A rank's part goes to each
// other host once (worker/collectives/hosts/routes.h); an all_reduce counts as for a single row.
std::vector<PlanHost> plan_hosts(const PlanTable& table, int hosts);

}  // namespace lockstep

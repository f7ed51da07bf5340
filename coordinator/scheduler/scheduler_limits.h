// SPDX-License-Identifier: Apache-2.0
// A scheduler's limits, fixed for an epoch.
#pragma once

#include <cstdint>

#include "coordinator/scheduler/pages/prefix_options.h"
#include "proto/sequence_rules.h"

namespace lockstep {

inline constexpr int64_t kMinPromptRows = 16;

struct SchedulerLimits {
  int64_t rows = 0;           // Max per step.
  int64_t prefill_chunk = 0;  // Max rows of prompts and recomputed tokens per step.
  int64_t running = 0;        // Max sequences that hold pages at once.
  int64_t outputs = 0;        // Max per step.
  int64_t pages = 0;
  int64_t page_tokens = 0;
  // The target duration of a step with decoding sequences; prompts get what decoding leaves, and at
  // least kMinPromptRows rows. 0: no target.
  int64_t step_budget_ns = 0;
  RopeRule rope = {};
  PrefixOptions prefix = {};
};

}  // namespace lockstep

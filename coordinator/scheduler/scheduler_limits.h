// SPDX-License-Identifier: Apache-2.0
// What a scheduler may plan, fixed for an epoch.
#pragma once

#include <cstdint>

#include "coordinator/scheduler/pages/prefix_options.h"
#include "proto/sequence_rules.h"

namespace lockstep {

inline constexpr int64_t kMinPromptRows = 16;

struct SchedulerLimits {
  int64_t rows = 0;           // Of a step.
  int64_t prefill_chunk = 0;  // Of those, rows of prompts (and of what is computed again).
  int64_t running = 0;        // Sequences that hold pages at once.
  int64_t outputs = 0;        // Of a step.
  int64_t pages = 0;
  int64_t page_tokens = 0;
  // That a step in which sequences decode is to take; prompts get what decoding leaves of it, and
  // kMinPromptRows rows at least. 0: as long as it takes.
  int64_t step_budget_ns = 0;
  RopeRule rope = {};
  PrefixOptions prefix = {};
};

}  // namespace lockstep

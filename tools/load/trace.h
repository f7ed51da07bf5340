// SPDX-License-Identifier: Apache-2.0
// A recorded load: each request's arrival time and content.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace lockstep {

struct TraceEntry {
  double at_s = 0;            // Since the start.
  std::string prompt;         // "": words are drawn.
  int64_t prompt_tokens = 0;  // The number of words to draw.
  int64_t max_tokens = 0;
};

// One JSON object per line: {"at_s": 0.5, "prompt_tokens": 100, "max_tokens": 64}, or with "prompt"
// instead of "prompt_tokens". Other keys are ignored. Sorted by at_s; lines with the same time keep
// their order. An error names the line; `what` names the text.
absl::StatusOr<std::vector<TraceEntry>> parse_trace(std::string_view text, std::string_view what);
absl::StatusOr<std::vector<TraceEntry>> read_trace(const std::filesystem::path& path);

// One prompt per line of a file; empty lines are skipped.
absl::StatusOr<std::vector<std::string>> read_prompts(const std::filesystem::path& path);

}  // namespace lockstep

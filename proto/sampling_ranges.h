// SPDX-License-Identifier: Apache-2.0
// The ranges of GenerateRequest's sampling fields: in a request, and as a model's own defaults.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/check.h"

namespace lockstep {

struct SamplingRange {
  const char* field;
  // A request's own value, see coordinator/api/limits.h.
  int64_t min;
  int64_t max;
  bool min_included;
  // A default, of generation_config.json or --sampling-defaults. It is the operator's, who may go
  // farther than callers.
  double default_min;
  double default_max;
};

inline constexpr SamplingRange kSamplingRanges[] = {
    {"temperature", 0, 100, true, 0, 1e4},
    {"top_k", 0, 1 << 30, true, -1, 1 << 30},  // The default -1 is 0: off.
    {"top_p", 0, 1, true, 0, 1},
    {"min_p", 0, 1, true, 0, 1},
    {"repetition_penalty", 0, 10, false, 1e-3, 1e3},
    {"presence_penalty", -2, 2, true, -2, 2},
    {"frequency_penalty", -2, 2, true, -2, 2},
};

constexpr const SamplingRange& sampling_range(std::string_view field) {
  for (const SamplingRange& range : kSamplingRanges) {
    if (std::string_view(range.field) == field) return range;
  }
  LOCKSTEP_CHECK(!"no sampling field of this name");
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// The ranges of GenerateRequest's sampling fields, in requests and in a model's defaults.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/check.h"

namespace lockstep {

struct SamplingRange {
  const char* field;
  // The range in a request, see coordinator/api/limits.h.
  int64_t min;
  int64_t max;
  bool min_included;
  // The range of a default, from generation_config.json or --sampling-defaults. An operator may
  // exceed the range of requests.
  double default_min;
  double default_max;
};

inline constexpr SamplingRange kSamplingRanges[] = {
    {"temperature", 0, 100, true, 0, 1e4},
    {"top_k", 0, 1 << 30, true, -1, 1 << 30},  // A default of -1 is read as 0: off.
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

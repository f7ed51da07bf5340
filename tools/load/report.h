// SPDX-License-Identifier: Apache-2.0
// A load's figures as text and JSON.
#pragma once

#include <string>

#include "base/json.h"
#include "tools/load/summary.h"

namespace lockstep {

// The figures and their conditions.
struct LoadReport {
  std::string url;
  std::string model;
  std::string endpoint;  // "completions", "chat".
  std::string load;      // "Poisson, 10 requests/s, seed 1".
  Slo slo;
  LoadSummary summary;
  int64_t in_flight = 0;  // Not finished, because the user interrupted the load.
  double client_cpu = 0;  // Seconds of CPU time per second used by the client itself.
};

OrderedJson to_json(const LoadReport& report);
std::string to_text(const LoadReport& report);

}  // namespace lockstep

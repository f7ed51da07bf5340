// SPDX-License-Identifier: Apache-2.0
// A load's figures for people and machines.
#pragma once

#include <string>

#include "base/json.h"
#include "tools/load/summary.h"

namespace lockstep {

// What the figures are of.
struct LoadReport {
  std::string url;
  std::string model;
  std::string endpoint;  // "completions", "chat".
  std::string load;      // "Poisson, 10 requests/s, seed 1".
  Slo slo;
  LoadSummary summary;
  int64_t in_flight = 0;  // Not waited for, since a person ended the load.
  double client_cpu = 0;  // Seconds of processor time per second that the client itself took.
};

OrderedJson to_json(const LoadReport& report);
std::string to_text(const LoadReport& report);

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "worker/kernels/report.h"

#include <atomic>
#include <cstdio>

namespace lockstep {
namespace {

std::atomic<ReportFn> current{nullptr};

}  // namespace

void report(const std::string& line) {
  if (const ReportFn sink = current.load()) return sink(line);
  std::fprintf(stderr, "lockstep: %s\n", line.c_str());
}

void report_to(ReportFn sink) { current.store(sink); }

}  // namespace lockstep

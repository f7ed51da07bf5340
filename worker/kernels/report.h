// SPDX-License-Identifier: Apache-2.0
// What the host code of kernels has to say to people: a choice that costs speed or changes bits,
// once each.
#pragma once

#include <string>

namespace lockstep {

// One line. Any thread.
void report(const std::string& line);

// Where lines go from now on; at first to stderr. Null: to stderr.
using ReportFn = void (*)(const std::string& line);
void report_to(ReportFn sink);

}  // namespace lockstep

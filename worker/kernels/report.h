// SPDX-License-Identifier: Apache-2.0
// Reports of kernels' host code to users: choices that cost speed or change bits, once each.
#pragma once

#include <string>

namespace lockstep {

// Reports one line. Callable from any thread.
void report(const std::string& line);

// The destination of lines from now on. Null, the default: stderr.
using ReportFn = void (*)(const std::string& line);
void report_to(ReportFn sink);

}  // namespace lockstep

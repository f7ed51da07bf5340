// SPDX-License-Identifier: Apache-2.0
// How kernels' host code reports to users: each choice that costs speed or changes bits is reported
// once.
#pragma once

#include <string>

namespace lockstep {

// Reports one line. Callable from any thread.
void report(const std::string& line);

// The destination of lines from now on. Null, the default: stderr.
using ReportFn = void (*)(const std::string& line);
void report_to(ReportFn sink);

}  // namespace lockstep
